// SPDX-License-Identifier: Apache-2.0
// LaunchChecker: the checks of one launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpu/check/actors.hpp"
#include "cpu/check/checker.hpp"
#include "cpu/check/findings.hpp"
#include "cpu/check/races.hpp"
#include "cpu/check/regions.hpp"

namespace moegen::cpu {

/// What the checks have to know of a launch.
struct CheckedLaunch {
  std::uint32_t threads_per_block = 0;
  std::uint32_t cluster_size = 1;
  const Buffers* buffers = nullptr;
  std::vector<std::pair<const void*, std::size_t>> constants;
};

class LaunchChecker final : public Checker {
 public:
  LaunchChecker(const CheckedLaunch& launch, std::unique_ptr<Findings> findings);

  void block_started(const Block& block) override;
  void block_ended(const Block& block) override;
  void access(Thread& thread, const void* address, std::uint32_t bytes, std::uint32_t alignment, Access kind,
              Scope scope, Site site) override;
  void join(const Block& block, std::span<const std::uint32_t> threads) override;
  void release(Thread& thread, const void* object) override;
  void acquire(Thread& thread, const void* object) override;
  void forget(const void* object) override;
  void fence(Thread& thread) override;
  void fence_proxy(Thread& thread) override;
  Actor fork(const Block& block, std::span<const std::uint32_t> threads, const char* what, Site site) override;
  void access(const Actor& actor, const void* address, std::uint32_t bytes, std::uint32_t alignment,
              Access kind) override;
  void set_swizzle(const Actor& actor, std::uint32_t span) override;
  void set_async_proxy(const Actor& actor) override;
  void release(const Actor& actor, const void* object) override;
  void acquire(const Actor& actor, const void* object) override;
  void end(const Actor& actor) override;

 private:
  /// Shared memory of a block that runs, or ran and has left it to nobody yet.
  struct SharedMemory {
    std::uint32_t block = 0;
    std::uintptr_t begin = 0, end = 0;
    std::unique_ptr<Shadow> shadow;
    bool has_ended = false;
  };
  /// One access, as all checks see it.
  struct Request {
    std::uintptr_t address = 0;
    std::uint32_t bytes = 0;
    Tag tag;
    Timeline* who = nullptr;
    const Thread* thread = nullptr;  ///< null for an operation
  };

  Timeline& timeline_of(const Thread& thread);
  void forget_range(const void* begin, std::size_t bytes);
  void check(const Request& request, std::uint32_t alignment);
  void check_shared(const Request& request, SharedMemory& memory);
  void check_global(const Request& request, Region& region);
  SharedMemory* find_shared(std::uintptr_t address) noexcept;

  [[noreturn]] void fail(CpuFinding finding, std::string what, const Request& request);
  [[noreturn]] void misaligned(const Request& request, std::uint32_t alignment);
  [[noreturn]] void past_the_end(const Request& request, std::uintptr_t end, const std::string& memory);
  [[noreturn]] void out_of_bounds(const Request& request);
  [[noreturn]] void other_cluster(const Request& request, const SharedMemory& memory);
  void report_race(const Request& request, const PastAccess& earlier, std::uintptr_t address, bool is_global);
  void report_ended(const Request& request, const SharedMemory& memory);
  void report_unwritten(const Request& request, std::uintptr_t address);
  void report_swizzle(const Request& request, const Cell& cell, std::uintptr_t address);
  void report_proxy(const Request& request, const Cell& cell, std::uintptr_t address);

  std::string locate(std::uintptr_t address, const Request& request);
  std::string locate_outside(const Request& request);
  std::string action(const Request& request) const;
  CpuParty party(Epoch epoch, Tag tag) const;
  CpuReport make_report(CpuFinding finding, std::string what, const Request& request) const;

  const CheckedLaunch launch_;
  std::unique_ptr<Findings> findings_;
  Actors actors_;
  Races races_;
  Regions regions_;
  std::map<std::uintptr_t, SharedMemory> shared_;  ///< by begin
  std::vector<SharedMemory*> shared_of_;           ///< by block; null before it runs, and once another has its memory
};

}  // namespace moegen::cpu
