// SPDX-License-Identifier: Apache-2.0
// Compiler: a kernel's text -> host object; Loader: host object -> program that can run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/compile/symbols.hpp"
#include "cpu/program.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {

/// Clang for this host. Thread-safe; compiles hold no lock.
class Compiler {
 public:
  Compiler();
  ~Compiler();
  /// "clang-19.1.7 x86-64 znver4 93c1...": the last word stands for the host's features and for the prelude.
  const std::string& version() const noexcept;
  CompiledObject compile(const CompileRequest& request) const;

  /// What compile() spent its time on, milliseconds.
  struct Times {
    double front_end = 0, optimiser = 0, code_generator = 0;
  };
  CompiledObject compile(const CompileRequest& request, Times& times) const;
  struct Host;

 private:
  std::unique_ptr<Host> host_;
};

/// Links objects into the process. Thread-safe.
class Loader {
 public:
  /// Objects may refer to `symbols` and to nothing else.
  explicit Loader(const std::vector<Symbol>& symbols);
  ~Loader();  ///< every program that it loaded must be gone
  /// Null where the object is not one of Compiler's, cannot be linked or lacks an entry; `why` then says so.
  std::shared_ptr<const HostProgram> load(std::string_view object, const std::vector<std::string>& entries,
                                          std::string& why) const;
  struct Session;

 private:
  std::unique_ptr<Session> session_;
  std::string broken_;  ///< why there is no session
};

}  // namespace moegen::cpu
