// SPDX-License-Identifier: Apache-2.0
// One line on the terminal that says what long work is doing; nothing at all in a pipe.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace moegen::cli {

/// Thread-safe. Erases its line when destroyed.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows "[index/count] text" in place of the line before.
  void show(std::size_t index, std::size_t count, std::string_view text);
  /// Erases the line, so that something else can be written.
  void clear();

 private:
  const bool terminal_;
  bool shown_ = false;
  std::mutex mutex_;
};

}  // namespace moegen::cli
