// SPDX-License-Identifier: Apache-2.0
// Logger: the log function of an Engine behind its level.
#pragma once

#include <functional>
#include <string>

#include <moegen/engine.hpp>

namespace moegen {

/// Cheap to copy; as thread-safe as the function behind it.
class Logger {
 public:
  using Sink = std::function<void(LogLevel, const std::string&)>;

  /// An empty `sink` writes lines to standard error.
  Logger(LogLevel level, Sink sink);

  /// Passes `message` on if the level lets it through.
  void operator()(LogLevel level, const std::string& message) const;

 private:
  LogLevel level_;
  Sink sink_;
};

}  // namespace moegen
