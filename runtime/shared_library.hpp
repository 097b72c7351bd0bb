// SPDX-License-Identifier: Apache-2.0
// SharedLibrary: dlopen, dlsym and where the file was found.
#pragma once

#include <memory>
#include <string>

namespace moegen {

/// A library opened with RTLD_NOW | RTLD_LOCAL. Never closed: NVRTC and the driver register exit handlers, and code of
/// theirs may still run on other threads.
class SharedLibrary {
 public:
  /// Nothing if it cannot be opened; `why` then holds the loader's message.
  static std::unique_ptr<SharedLibrary> open(const std::string& file, std::string& why);

  /// Address of `symbol`, or null.
  void* find(const char* symbol) const noexcept;

  /// The file behind the library, as the loader resolved it; the name that was asked for if it cannot tell.
  const std::string& path() const noexcept { return path_; }

 private:
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

/// Folder of the executable or library that contains this code; empty if the loader cannot tell.
std::string folder_of_this_code();

}  // namespace moegen
