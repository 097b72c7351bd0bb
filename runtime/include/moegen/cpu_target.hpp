// SPDX-License-Identifier: Apache-2.0
// The CPU target: kernels compiled for the host and run on a model of the GPU, with checks. For machines without a GPU,
// for tests and for finding bugs; see docs/cpu_target.md for what is modelled and what is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/error.hpp>
#include <moegen/kernel.hpp>

namespace moegen {

/// In which order the threads of a kernel run.
enum class Schedule {
  fair,   ///< round robin; a thread runs until it has to wait
  chaos,  ///< threads also stop at random at every synchronising operation; reproducible by seed
};

/// When an asynchronous operation (bulk and tensor copies, wgmma's reads) takes place between issue and completion.
enum class AsyncTiming {
  eager,   ///< at issue
  late,    ///< when something waits for it and nothing else can run
  random,  ///< anywhere in between, by seed
};

/// The most multiprocessors that can be modelled.
inline constexpr int kMostCpuSms = 256;

/// How the CPU target runs kernels.
struct CpuOptions {
  Schedule schedule = Schedule::fair;
  AsyncTiming async_timing = AsyncTiming::late;
  std::uint64_t seed = 1;       ///< of Schedule::chaos and AsyncTiming::random
  bool check = false;           ///< memory and race checks; four to ten times slower
  std::string arch = "sm_90a";  ///< the GPU that is modelled: its limits, and which code of a kernel is taken
  int num_sms = 16;  ///< multiprocessors of the modelled GPU: what plans see, and the most co-resident blocks
  std::size_t max_reports = 16;  ///< findings of one launch that are kept
};

/// What a finding is about.
enum class CpuFinding {
  deadlock,          ///< every thread waits
  out_of_bounds,     ///< global or shared memory outside every buffer
  misaligned,        ///< a vector access at an address that its width does not divide
  unwritten_shared,  ///< shared memory read before anything wrote it
  race_shared,       ///< two accesses of shared memory, one of them a write, with nothing that orders them
  race_global,       ///< the same in global memory
  divergence,        ///< a warp-wide operation that lanes of its mask did not reach, or reached differently
  misuse,            ///< an operation used against its rules (mbarrier counts, descriptor, tensor map, limits)
  fault,             ///< a host fault inside the kernel (found without --check): bad address, stack overflow, division
};
std::string_view to_string(CpuFinding finding) noexcept;

/// One side of a finding: who did what, where.
struct CpuParty {
  std::uint32_t block = 0, thread = 0;
  std::string action;  ///< "write of 4 bytes", "tensor copy into shared memory", "waits for mbarrier ..."
  std::string place;   ///< "create_indices.cu:214 in place_step, from :391 in run"
};

struct CpuReport {
  CpuFinding finding = CpuFinding::misuse;
  std::string what;               ///< one line: the fact, with address in terms of buffer or shared offset
  std::vector<CpuParty> parties;  ///< the culprit first; races have two, deadlocks one for each group of waiters
  std::uint64_t repeats = 0;      ///< further findings of the same kind at the same places
  std::string text() const;       ///< everything, several lines
};

/// `kernel`, which is one of the CPU target, with another schedule: `options`' schedule, async_timing and seed count,
/// the rest stays. Compiles nothing. Throws: config for a kernel of another target.
Kernel with_schedule(const Kernel& kernel, const CpuOptions& options);

/// What Kernel::run throws on the CPU target when the kernel did something wrong. `what()` is one line: the label and
/// the first finding.
class KernelError : public Error {
 public:
  KernelError(const std::string& label, std::vector<CpuReport> reports);  ///< `reports` is not empty
  const std::vector<CpuReport>& reports() const noexcept { return reports_; }
  std::string text() const;  ///< every report in full

 private:
  std::vector<CpuReport> reports_;
};

/// Memory that kernels on the CPU target may use, 256-byte aligned and known by name to the checks.
/// The bytes start as 0xCD, never as zero by luck. Movable.
class CpuBuffer {
 public:
  CpuBuffer() = default;
  CpuBuffer(std::size_t bytes, std::string name);
  ~CpuBuffer();
  CpuBuffer(CpuBuffer&& other) noexcept;
  CpuBuffer& operator=(CpuBuffer&& other) noexcept;
  void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Makes [data, data + bytes) known to the checks under `name`; for memory that the caller owns. Thread-safe.
/// Throws: config if the range is empty or overlaps one that is known.
void register_cpu_memory(const void* data, std::size_t bytes, std::string name);
/// Throws: config if no known range starts at `data`.
void unregister_cpu_memory(const void* data);

}  // namespace moegen
