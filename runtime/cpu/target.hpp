// SPDX-License-Identifier: Apache-2.0
// The CPU target as the launcher sees it: what libmoegen_cpu.so offers. The launcher never links that library, it loads
// it (launcher/library.hpp), so that a process which does not ask for the CPU target does not pay for LLVM.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/arch.hpp>
#include <moegen/cpu_target.hpp>
#include <moegen/engine.hpp>

namespace moegen::cpu {

class Buffers;

/// Version of this header; the library refuses a launcher built with another one.
inline constexpr int kTargetVersion = 1;

/// Threads that can be resident together: each has a stack of its own, and Linux counts their mappings.
inline constexpr int kMostResidentThreads = 24576;

/// A text to compile for the host.
struct CompileRequest {
  std::string_view source;           ///< as NVRTC would take it: no #include, `extern "C" __global__` entries
  std::string file_name;             ///< stands for the text in messages, "create_indices.cu"
  Arch arch;                         ///< whose __CUDA_ARCH__ and limits the text sees
  std::vector<std::string> entries;  ///< names of the entry points
  bool check = false;                ///< with memory accesses reported to the checks
};

/// What the compiler made of it. `object` is empty where the text does not compile; `log` then says why.
struct CompiledObject {
  std::string object;                     ///< a relocatable ELF file of the host
  std::string log;                        ///< diagnostics
  std::vector<EntryResources> resources;  ///< static shared memory of each entry, in the order asked for
};

/// A loaded object.
class Program {
 public:
  virtual ~Program() = default;
};

/// One launch. All sizes as cuLaunchKernelEx takes them.
struct LaunchRequest {
  const Program* program = nullptr;
  std::string_view entry;
  std::string_view label;  ///< how messages name the kernel
  Arch arch;
  int num_sms = 0;  ///< blocks of a cooperative launch that can be resident together
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  std::uint32_t cluster = 1;  ///< blocks of a cluster along x
  std::uint32_t dynamic_shared_bytes = 0;
  int max_threads = 1024;       ///< of a block, as the plan says; the text's __launch_bounds__ holds as well
  bool cooperative = false;     ///< all blocks resident together
  void** parameters = nullptr;  ///< one pointer a kernel parameter, as for cuLaunchKernelEx
  CpuOptions options;
  const Buffers* buffers = nullptr;  ///< the memory that kernels may touch, and its names

  std::uint64_t num_blocks() const noexcept { return product(grid); }
  std::uint64_t threads_per_block() const noexcept { return product(block); }

 private:
  static std::uint64_t product(const std::uint32_t (&sizes)[3]) noexcept {
    return std::uint64_t{sizes[0]} * sizes[1] * sizes[2];
  }
};

/// What went wrong in a launch; empty reports = nothing.
struct LaunchOutcome {
  std::vector<CpuReport> reports;
};

/// The target. Thread-safe; one a process. No member throws: nothing may cross from LLVM's frames into the caller's.
class Target {
 public:
  virtual ~Target() = default;
  /// "clang-19.1.7 x86-64 znver4": the compiler and the host it compiles for; part of the cache's `compiler` field.
  virtual std::string version() const = 0;
  virtual CompiledObject compile(const CompileRequest& request) const = 0;
  /// Null where the object cannot be linked or lacks an entry; `why` then says so.
  virtual std::shared_ptr<const Program> load(std::string_view object, const std::vector<std::string>& entries,
                                              std::string& why) const = 0;
  /// Runs to the end; what the kernel did wrong is in the outcome.
  virtual LaunchOutcome launch(const LaunchRequest& request) const = 0;
};

}  // namespace moegen::cpu

/// The library's one symbol. Null where `version` is not its own.
extern "C" const moegen::cpu::Target* moegen_cpu_target(int version);
