// SPDX-License-Identifier: Apache-2.0
// Engine: Config -> ready Kernel, through memory, packs, the user cache and the compiler, in that order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/cpu_target.hpp>
#include <moegen/kernel.hpp>
#include <moegen/plan.hpp>
#include <moegen/target.hpp>

namespace moegen {

namespace cache {
struct Entry;
}

enum class LogLevel { off, warning, info, debug };

/// How an Engine works. `from_environment` reads MOEGEN_CACHE_DIR, MOEGEN_PACKS, MOEGEN_JIT, MOEGEN_LOG and
/// MOEGEN_TEMPLATE_DIR once and strictly.
struct EngineOptions {
  Target target = Target::cuda;
  CpuOptions cpu;                   ///< of the CPU target
  std::filesystem::path cache_dir;  ///< empty: $XDG_CACHE_HOME/moegen, else $HOME/.cache/moegen, else memory only
  std::vector<std::filesystem::path> packs;  ///< read-only pack files, searched before the user cache
  bool jit = true;                           ///< false = strict mode: a miss is an error
  std::uint64_t cache_max_bytes = std::uint64_t{2} << 30;
  LogLevel log_level = LogLevel::warning;
  std::optional<std::filesystem::path> template_dir;
  std::function<void(LogLevel, const std::string&)> log;  ///< empty: standard error

  /// Throws: config, naming the variable, its value and what is allowed.
  static EngineOptions from_environment();
};

/// Where a kernel came from: of its parts, the one that was worst off.
enum class BuildStatus { compiled, cached, pack, memory };
std::string_view to_string(BuildStatus status) noexcept;

/// Resources of one entry point, as the compiler reported them.
struct EntryResources {
  std::string entry;
  int registers = 0;
  int spill_store_bytes = 0, spill_load_bytes = 0;
  int stack_bytes = 0;
  int shared_bytes = 0;  ///< static shared memory
};

/// Result of building one kernel without loading it; needs no driver and no GPU.
struct BuildReport {
  std::string kernel;
  std::string arch;
  std::string target = "cuda";
  BuildStatus status = BuildStatus::compiled;
  double milliseconds = 0;
  std::uint64_t cubin_bytes = 0;  ///< of the cubins, on the CPU target of the object
  std::vector<EntryResources> resources;
  std::vector<std::string> keys;  ///< one for each part (Engine::parts)
};

/// Thread-safe; one Engine serves all devices of a process. Move-only.
class Engine {
 public:
  explicit Engine(EngineOptions options = EngineOptions::from_environment());
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// The kernel `name` ("create_indices") of `config`, ready to run on the calling thread's current device: compiled
  /// or found, loaded, attributes set. May take as long as a compile; the second time under a microsecond.
  /// Throws: config, unsupported, compile, driver.
  Kernel get(const Config& config, std::string_view name);

  /// Compiles `plan` or finds it, and reports; loads nothing. Parts compile at the same time, on a thread each.
  /// Throws: unsupported, compile.
  BuildReport build(const Plan& plan);

  /// What of `plan` is compiled and stored apart on this engine's target (parts_of in source.hpp): plans with some of
  /// its entry points, which `build` and `entries` also take by themselves.
  std::vector<Plan> parts(const Plan& plan) const;

  /// The parts of `plan` as the cache stores them (cache/entry.hpp), built if necessary: what packs are made of. Their
  /// payloads are cubins, on the CPU target the object of this machine.
  std::vector<std::shared_ptr<const cache::Entry>> entries(const Plan& plan);

  const EngineOptions& options() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moegen
