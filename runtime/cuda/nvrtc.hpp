// SPDX-License-Identifier: Apache-2.0
// NVRTC, loaded by dlopen: source text -> cubin and resource report. Needs no header, no driver and no GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/arch.hpp>
#include <moegen/engine.hpp>

namespace moegen::cuda {

struct CompiledCubin {
  std::string cubin;                      ///< never empty, starts as an ELF file
  std::vector<EntryResources> resources;  ///< one for each entry point, in the order of the entries asked for
  std::string log;                        ///< NVRTC's program log
};

/// The flags moegen compiles with, in order, for `arch`. They are part of the cache key.
std::vector<std::string> compile_flags(const Arch& arch);

/// A loaded NVRTC library. Thread-safe.
class Nvrtc {
 public:
  /// Loads NVRTC 12.9 or later once per process: the first of `candidates()` that will do, together with
  /// libnvrtc-builtins from the same folder: NVRTC opens that by its bare name, which the loader finds only in its own
  /// search path or where it is already in the process.
  /// Null if the machine has none; `why` then says what was tried and how to get it.
  static std::shared_ptr<const Nvrtc> load(std::string* why = nullptr);

  /// The files that `load` tries, in order: the loader's own search, the toolkit's usual folders, MOEGEN_NVRTC_DIR of
  /// the build, and ../lib/moegen/nvrtc beside this program or library.
  static std::vector<std::string> candidates();

  /// What `load` does with its candidates, without remembering the result.
  static std::shared_ptr<const Nvrtc> load_from(const std::vector<std::string>& candidates, std::string& why);

  /// True if the NVRTC called `version` ("nvrtc-13.0") is among the candidates, by the builtins library that lies
  /// beside it under its full version. Costs microseconds, where loading NVRTC costs 20 ms and more: a process that
  /// finds all its kernels in the cache need not load it to know that they are current.
  static bool on_this_machine(std::string_view version);

  std::string version() const;                       ///< "nvrtc-13.0"
  int version_number() const noexcept;               ///< 13000, as cuDriverGetVersion counts
  std::string path() const;                          ///< the file that was loaded, for doctor
  std::vector<std::string> supported_archs() const;  ///< {"sm_75", ...}

  /// Compiles `source` for `arch`; `file_name` stands for it in diagnostics. `entries` are the extern "C" names that
  /// the cubin must have.
  /// Throws: compile, with source and log; unsupported if this NVRTC does not know `arch`; config if
  /// NVRTC_APPEND_FLAGS is set, which would change code behind the cache key.
  CompiledCubin compile(std::string_view source, const std::string& file_name, const Arch& arch,
                        const std::vector<std::string>& entries) const;

  struct State;
  explicit Nvrtc(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace moegen::cuda
