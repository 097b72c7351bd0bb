// SPDX-License-Identifier: Apache-2.0
// The one exception type of moegen. A launch throws only for arguments that are wrong, or what the driver refuses.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace moegen {

/// What kind of failure an Error reports. The CLI maps each to an exit code (cli/main.cpp).
enum class ErrorCode {
  config,       ///< the user's config, expression, argument or environment is wrong (exit 2)
  unsupported,  ///< well-formed, but not something this version, arch or driver can do (exit 3)
  compile,      ///< NVRTC or Clang refused a source text (exit 70: our bug unless templates were overridden)
  cache,        ///< an explicit cache or pack operation failed; ordinary lookups degrade instead (exit 1)
  driver,       ///< a CUDA driver call failed (exit 1)
  internal,     ///< a broken invariant of moegen itself (exit 70)
  kernel,       ///< a kernel did something wrong on the CPU target: deadlock, race, bad access (exit 1)
};

/// Name of `code` as it appears in messages and JSON, e.g. "unsupported".
std::string_view to_string(ErrorCode code) noexcept;

/// Base of everything moegen throws. `what()` is one lower-case sentence without a full stop that says where, what,
/// and what is allowed.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// A source text was refused by the compiler. `what()` holds the first diagnostic; the rest is here.
class CompileError : public Error {
 public:
  CompileError(const std::string& message, std::string source, std::string log)
      : Error(ErrorCode::compile, message), source_(std::move(source)), log_(std::move(log)) {}
  std::string_view source() const noexcept { return source_; }
  std::string_view log() const noexcept { return log_; }

 private:
  std::string source_, log_;
};

}  // namespace moegen
