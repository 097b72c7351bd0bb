// SPDX-License-Identifier: Apache-2.0
// Scheduler: runs the threads of co-resident blocks as fibers on one thread of the host. A thread runs until it waits,
// ends, or the schedule takes its turn away; a wait parks it, so a deadlock is known the moment nothing can run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/cpu_target.hpp>

#include "cpu/calls/thread_context.h"

namespace moegen::cpu {

struct Block;
class Scheduler;
class Checker;

/// Number of a place in the kernel's text (compile/sites.hpp); 0 = unknown.
using Site = std::uint32_t;

/// Why a thread does not run. `object` is told by `describe` in deadlock reports.
struct Wait {
  const char* operation = nullptr;  ///< "bar.sync", "mbarrier.try_wait", ...; null = running
  std::uint64_t object = 0;         ///< barrier number, shared address, mask ... as `operation` means it
  std::uint64_t detail = 0;         ///< expected count, parity ...
  Site site = 0;
};

/// One CUDA thread. Lives beside its stack; never copied.
struct Thread {
  void* stack_pointer = nullptr;  ///< of a thread that does not run now
  MoegenCpuContext* context = nullptr;
  Block* block = nullptr;
  std::uint32_t index = 0;  ///< linear index in the block
  bool ended = false;
  Wait wait;
  Thread* next = nullptr;      ///< in the run queue or in a WaitList
  Thread* previous = nullptr;  ///< in the run queue
};

/// Threads that wait for the same event. Part of the object that they wait on.
struct WaitList {
  Thread* first = nullptr;
  Thread* last = nullptr;
  bool empty() const noexcept { return first == nullptr; }
};

/// Work that was issued and takes place later: a copy, a tensor core operation.
class AsyncOperation {
 public:
  virtual ~AsyncOperation() = default;
  virtual void perform() = 0;  ///< does it and completes it (arrives, wakes); runs on any fiber or on none
};

/// Runs one set of co-resident blocks at a time (an ordinary block, a cluster, a cooperative grid).
class Scheduler {
 public:
  /// The scheduler of the calling host thread, while it runs a launch.
  static Scheduler& current() noexcept;

  Thread& running() const noexcept { return *running_; }
  Checker* checker() const noexcept { return checker_; }  ///< null where the launch is not checked
  const CpuOptions& options() const noexcept { return options_; }

  /// Parks the running thread on `list` until woken. Does not return where the launch is abandoned.
  void park(WaitList& list, const Wait& wait);
  void wake_all(WaitList& list) noexcept;
  /// A point at which Schedule::chaos may run others first. Every synchronising call passes one.
  void preemption_point();

  /// Issues `operation`: performed at once (AsyncTiming::eager), when nothing else can run, in the order of issue
  /// (late), or at some preemption point, in any order (random).
  void submit(std::unique_ptr<AsyncOperation> operation);

  /// A random number of this launch's seed.
  std::uint64_t random() noexcept;

  /// Records a finding at the running thread. Fatal ones abandon the launch and do not return.
  void report(CpuFinding finding, std::string what, Site site, std::string action);
  [[noreturn]] void fail(CpuFinding finding, std::string what, Site site, std::string action);
  /// The same with more than one side.
  void report(CpuReport report);
  [[noreturn]] void fail(CpuReport report);
  /// "create_indices.cu:214 in place_step".
  std::string place(Site site) const;
  /// Ends the launch at once with the reports so far. Does not return when called on a fiber.
  [[noreturn]] void abandon();

 private:
  friend class Launcher;
  Thread* running_ = nullptr;
  Checker* checker_ = nullptr;
  CpuOptions options_;
};

}  // namespace moegen::cpu
