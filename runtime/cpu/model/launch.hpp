// SPDX-License-Identifier: Apache-2.0
// Launch: what the host threads that run one launch share.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <moegen/cpu_target.hpp>

#include "cpu/model/block.hpp"
#include "cpu/program.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {

/// The findings of a launch. Thread-safe.
class Reports {
 public:
  /// Keeps at least one, so that a launch in which something was found is known by its reports.
  explicit Reports(std::size_t most) : most_(std::max<std::size_t>(most, 1)) {}
  /// Keeps it, or counts it where the same was found at the same places, or drops it past the most.
  void add(CpuReport report) { add(std::move(report), false); }
  /// The same for one that ends the launch, which is kept in any case.
  void add_last(CpuReport report) { add(std::move(report), true); }
  /// The last tells how many were dropped.
  std::vector<CpuReport> take();

 private:
  void add(CpuReport report, bool is_last);

  const std::size_t most_;
  std::uint64_t dropped_ = 0;
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

  /// Of the grid.
  std::uint64_t num_blocks() const noexcept { return num_cohorts * shape.num_blocks; }
  /// Abandons the launch because the model cannot go on. Thread-safe; the first reason is kept. Allocates nothing.
  void give_up(const std::exception& error) noexcept;
  /// "the CPU target is out of memory"; empty if nobody gave up. Once no worker runs.
  std::string why_given_up() const;

  const LaunchRequest& request;
  const HostProgram& program;
  const HostEntry entry;
  const BlockShape shape;
  const std::uint64_t num_cohorts;
  std::atomic<std::uint64_t> next_cohort = 0;
  std::atomic<bool> abandoned = false;
  Reports reports;
  Workers workers;

 private:
  std::atomic<bool> gave_up_ = false;
  std::array<char, 160> reason_{};  ///< what the exception says; empty for a lack of memory
};

/// "the CPU target is out of memory", "the CPU target cannot go on: ...".
std::string describe_exception(const std::exception& error);

}  // namespace moegen::cpu
