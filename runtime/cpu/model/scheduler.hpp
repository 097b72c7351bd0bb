// SPDX-License-Identifier: Apache-2.0
// Scheduler: runs the threads of co-resident blocks as fibers on one thread of the host. A thread runs until it waits,
// ends, or the schedule takes its turn away; a wait parks it, so a deadlock is known the moment nothing can run.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/cpu_target.hpp>

#include "cpu/calls/thread_context.h"
#include "cpu/model/fault.hpp"
#include "cpu/model/run_queue.hpp"
#include "cpu/model/stacks.hpp"

namespace moegen::cpu {

struct Block;
struct Cohort;
struct Launch;
struct Thread;
class Checker;

/// Number of a place in the kernel's text (compile/sites.hpp); 0 = unknown.
using Site = std::uint32_t;

/// Why a thread does not run.
struct Wait {
  const char* operation = nullptr;  ///< "bar.sync", "mbarrier.try_wait", ...; null = running
  std::uint64_t object = 0;         ///< barrier number, shared address, mask ... as `operation` means it
  std::uint64_t detail = 0;         ///< expected count, parity ...
  Site site = 0;
  /// What `thread` waits for, for deadlock reports: "mbarrier at shared+0x20020, parity 0". Null: `operation` says it.
  std::string (*describe)(const Thread& thread) = nullptr;
};

/// One CUDA thread. Never copied; lives as long as its block is resident. What every switch touches comes first, in one
/// line of the cache.
struct alignas(64) Thread {
  void* stack_pointer = nullptr;  ///< of a thread that does not run now
  char* stack = nullptr;          ///< while it runs or waits; null: has not started, or has ended
  Thread* next = nullptr;         ///< in a WaitList
  Block* block = nullptr;
  MoegenCpuContext* context = nullptr;  ///< at the top of `stack`
  std::uint32_t index = 0;              ///< linear index in the block
  Site site = 0;                        ///< the last place that it told
  std::uint32_t cluster_phase = 0;      ///< in which it arrived at the cluster's barrier
  bool arrived_at_cluster = false;      ///< and has not waited yet
  bool ended = false;
  Wait wait;

  std::uint32_t lane() const noexcept { return index % 32; }
  std::uint32_t warp() const noexcept { return index / 32; }
};

/// Threads that wait for the same event. Part of the object that they wait on.
struct WaitList {
  Thread* first = nullptr;
  Thread* last = nullptr;
  bool empty() const noexcept { return first == nullptr; }
  void append(Thread& thread) noexcept {
    thread.next = nullptr;
    (empty() ? first : last->next) = &thread;
    last = &thread;
  }
};

/// Work that was issued and takes place later: a copy, a tensor core operation.
class AsyncOperation {
 public:
  /// Who is told of where it goes wrong.
  struct Issuer {
    const Thread* thread = nullptr;
    Site site = 0;
  };

  virtual ~AsyncOperation() = default;
  /// Does it and completes it (arrives, wakes). Runs on any fiber or on none; must not park.
  virtual void perform() = 0;

  Issuer issuer;  ///< set by Scheduler::submit
};

/// A thread that waits until a word of memory is large enough.
struct Watch {
  const void* word = nullptr;
  std::uint32_t bytes = 4;
  std::uint64_t least = 0;
  Thread* thread = nullptr;
};

/// Runs one set of resident blocks at a time: an ordinary block, a cluster, a cooperative grid; in chaos several.
class Scheduler {
 public:
  /// Of the calling host thread, which takes part in `launch`, for as many threads as `stacks`. `checker` is null where
  /// the launch is not checked.
  Scheduler(Launch& launch, Checker* checker, Stacks stacks);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// The scheduler of the calling host thread, while it runs a launch.
  static Scheduler& current() noexcept { return *current_; }
  /// The same or null.
  static Scheduler* current_or_null() noexcept { return current_; }

  /// The thread whose fiber runs. Not to be called where an operation is performed while nothing can run.
  Thread& running() const noexcept { return *running_; }
  /// The same or null.
  Thread* running_or_null() const noexcept { return running_; }
  Checker* checker() const noexcept { return checker_; }  ///< null where the launch is not checked
  const CpuOptions& options() const noexcept;
  Launch& launch() const noexcept { return launch_; }

  /// Parks the running thread on `list` until woken. Does not return where the launch is abandoned.
  void park(WaitList& list, const Wait& wait) {
    list.append(*running_);
    park(wait);
  }
  void wake_all(WaitList& list) noexcept;
  /// The same for a wait that one thread knows of alone.
  void park(const Wait& wait) {
    Thread& self = *running_;
    self.wait = wait;
    self.site = wait.site;
    leave_running();
    self.wait.operation = nullptr;
  }
  void wake(Thread& thread) noexcept;
  /// Parks the running thread until `watch.word` is at least `watch.least`.
  void park_on_word(const Watch& watch, const Wait& wait);
  /// Wakes those whose word was reached. Called after `word` was changed by an atomic operation.
  void word_changed(const void* word) noexcept;

  /// A point at which Schedule::chaos may run others first. Every synchronising call passes one, at its begin.
  void preemption_point() {
    if (--calls_to_turn_ <= 0) take_turns();
  }
  /// Lets all others run first: for a thread that asks again and again (mbarrier.test_wait, an atomic load).
  void yield();

  /// Issues `operation`: performed at once (AsyncTiming::eager), when nothing else can run, in the order of issue
  /// (late), or at some preemption point, in any order (random). `site` is where the running thread issues it; one that
  /// an operation issues has that one's issuer.
  void submit(std::unique_ptr<AsyncOperation> operation, Site site = 0);
  /// Whether an operation takes place now.
  bool performs() const noexcept { return !performing_.empty(); }

  /// A random number of this launch's seed.
  std::uint64_t random() noexcept;

  /// Records a finding at the issuer of the operation that takes place, else at the running thread. `fail` abandons the
  /// launch: the frames of its threads are not unwound, so a caller of `fail` should own no memory.
  void report(CpuFinding finding, std::string what, Site site, std::string action);
  [[noreturn]] void fail(CpuFinding finding, std::string what, Site site, std::string action);
  /// The same with more than one side.
  void report(CpuReport report);
  [[noreturn]] void fail(CpuReport report);
  /// `thread` as a side of a report.
  CpuParty party(const Thread& thread, std::string action, Site site) const;
  /// "create_indices.cu:214 in place_step".
  std::string place(Site site) const;
  /// Ends the launch at once with the reports so far.
  [[noreturn]] void abandon();

  /// Runs all threads of `cohorts` to their end. False if the launch was abandoned.
  bool run(std::span<Cohort* const> cohorts, std::uint64_t seed);
  std::span<Cohort* const> cohorts() const noexcept { return cohorts_; }
  const std::vector<Watch>& watches() const noexcept { return watches_; }

  /// Leaves the running fiber for good, or the operation that takes place where none runs, because of a host fault.
  /// Called in a signal handler.
  [[noreturn]] void leave_after(const HostFault& fault) noexcept;

 private:
  static void thread_main();
  [[noreturn]] void run_threads();
  bool run_one();
  void end_running();
  void start(Thread& thread, char* stack);
  Thread* take_ready() noexcept;
  void give_stack(Thread& thread);
  void enter(Thread& thread);
  void leave_running();
  void go(void** from, void* to, char* stack) noexcept;
  [[noreturn]] void leave_for_good(void* to, char* stack) noexcept;

  void take_turns();
  void let_others_run();
  void all_poll();
  bool polled_for_long();
  void perform(std::unique_ptr<AsyncOperation> operation);
  void perform_one();
  void perform_one_at_home();
  bool progress();
  bool wake_reached(const void* word) noexcept;
  void moved() noexcept { polls_ = 0; }
  void prepare(std::span<Cohort* const> cohorts, std::uint64_t seed);
  bool loop();
  void drain();
  void report_fault();
  CpuReport report_of(CpuFinding finding, std::string what, Site site, std::string action) const;

  // NOLINTNEXTLINE(readability-identifier-naming): a private member like the others
  static thread_local Scheduler* current_ __attribute__((tls_model("initial-exec")));

  Launch& launch_;
  Checker* checker_ = nullptr;
  Thread* running_ = nullptr;
  std::int32_t calls_to_turn_ = 0, turn_length_ = 0;
  bool chaos_ = false;
  bool abandoned_ = false;
  RunQueue ready_;
  void* home_ = nullptr;             ///< the host thread's own stack, where nothing can run
  void* left_ = nullptr;             ///< of the fiber that was left for good; nobody goes back
  std::size_t live_ = 0;             ///< threads that have not ended
  std::uint64_t polls_ = 0;          ///< yields since anything else happened
  std::uint64_t polling_since_ = 0;  ///< nanoseconds
  std::uint64_t random_state_ = 0;
  std::deque<std::unique_ptr<AsyncOperation>> operations_;
  std::vector<std::unique_ptr<AsyncOperation>> performing_;  ///< the innermost last
  sigjmp_buf home_escape_;  ///< out of an operation that takes place on the host thread's own stack
  std::vector<Watch> watches_;
  Stacks stacks_;
  std::vector<char*> free_stacks_;
  std::span<Cohort* const> cohorts_;
  HostFault fault_;
  Thread* left_for_good_ = nullptr;  ///< the thread that abandoned the launch
  bool draining_ = false;
  // The host thread's own stack, which AddressSanitizer must know.
  const void* home_bottom_ = nullptr;
  std::size_t home_bytes_ = 0;
};

}  // namespace moegen::cpu
