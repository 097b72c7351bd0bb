// SPDX-License-Identifier: Apache-2.0
// Launch: what the host threads that run one launch share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <moegen/cpu_target.hpp>

#include "cpu/model/block.hpp"
#include "cpu/program.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {

/// The findings of a launch. Thread-safe.
class Reports {
 public:
  explicit Reports(std::size_t most) : most_(most) {}
  /// Keeps it, or counts it where the same was found at the same places.
  void add(CpuReport report);
  std::vector<CpuReport> take();

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::vector<CpuReport> reports_;
};

/// The host threads of a launch, so that one whose blocks wait for other blocks knows whether those still run.
class Workers {
 public:
  explicit Workers(unsigned count) : working_(count) {}
  /// Waits until a watched word of `scheduler` is reached and its thread woken. False if no host thread can go on, or
  /// if the launch was abandoned.
  bool wait_for_others(Scheduler& scheduler);
  /// Called by each at its end.
  void leave();
  bool alone();

 private:
  bool all_stuck() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned working_;
  std::vector<Scheduler*> idle_;
};

struct Launch {
  Launch(const LaunchRequest& launch_request, const HostProgram& host_program, const HostProgram::Entry& host_entry,
         unsigned num_workers);

  /// Whether `request` asks for blocks that run at the same time as others only by luck.
  std::uint64_t num_blocks() const noexcept { return num_cohorts * shape.num_blocks; }

  const LaunchRequest& request;
  const HostProgram& program;
  const HostEntry entry;
  const BlockShape shape;
  const std::uint64_t num_cohorts;
  std::atomic<std::uint64_t> next_cohort = 0;
  std::atomic<bool> abandoned = false;
  Reports reports;
  Workers workers;
};

}  // namespace moegen::cpu
