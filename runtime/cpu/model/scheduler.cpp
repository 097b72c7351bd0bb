// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cpu/check/checker.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/deadlock.hpp"
#include "cpu/model/fiber.hpp"
#include "cpu/model/launch.hpp"
#include "cpu/model/sanitizer.hpp"
#include "cpu/model/stacks.hpp"
#include "cpu/model/word.hpp"

namespace moegen::cpu {
namespace {

/// Synchronising calls of a fair schedule after which a thread gives way even if it need not wait, so that one that
/// asks in a loop cannot keep the others from running.
constexpr std::int32_t kFairTurn = 1024;
/// Chaos gives one in three turns away; random timing performs an operation at one in four.
constexpr std::uint64_t kChaosTurn = 3, kRandomTiming = 4;
/// What stacks of neighbours start apart: three lines of a cache, so that those of a block fill all sets of the second
/// level evenly. 64 of them cost the deepest stack 12 KiB.
constexpr std::size_t kStagger = 192;
/// How long all threads may do nothing but ask before that counts as a deadlock, alone and beside other host threads.
constexpr std::uint64_t kPollNanoseconds = 10'000'000'000, kPollNanosecondsWithOthers = 6 * kPollNanoseconds;
constexpr std::uint64_t kPollsBetweenClocks = 1 << 16;

/// Unwinds the host thread's own stack where a launch is abandoned on it; no frame of a kernel lies there.
struct Abandoned {};

std::uint64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace

thread_local Scheduler* Scheduler::current_ __attribute__((tls_model("initial-exec"))) = nullptr;

Scheduler::Scheduler(Launch& launch, Checker* checker, Stacks stacks)
    : launch_(launch),
      checker_(checker),
      chaos_(launch.request.options.schedule == Schedule::chaos),
      stacks_(std::move(stacks)) {
  const bool random = chaos_ || options().async_timing == AsyncTiming::random;
  turn_length_ = random ? 1 : kFairTurn;
  calls_to_turn_ = turn_length_;
  current_ = this;
}

Scheduler::~Scheduler() { current_ = nullptr; }

const CpuOptions& Scheduler::options() const noexcept { return launch_.request.options; }

// --- waiting
// -----------------------------------------------------------------------------------------------------------

void Scheduler::wake_all(WaitList& list) noexcept {
  for (Thread* thread = std::exchange(list.first, nullptr); thread != nullptr; thread = thread->next)
    ready_.push(*thread);
  list.last = nullptr;
  moved();
}

void Scheduler::wake(Thread& thread) noexcept {
  ready_.push(thread);
  moved();
}

void Scheduler::park_on_word(const Watch& watch, const Wait& wait) {
  watches_.push_back(watch);
  watches_.back().thread = running_;
  park(wait);
}

void Scheduler::word_changed(const void* word) noexcept {
  moved();
  if (!watches_.empty()) wake_reached(word);
}

/// Wakes those that wait for `word`, or for any word if null, and have what they wait for.
bool Scheduler::wake_reached(const void* word) noexcept {
  const auto reached = [&](const Watch& watch) {
    if (word != nullptr && watch.word != word) return false;
    if (load_word(watch.word, watch.bytes) < watch.least) return false;
    wake(*watch.thread);
    return true;
  };
  return std::erase_if(watches_, reached) > 0;
}

// --- turns
// -------------------------------------------------------------------------------------------------------------

void Scheduler::take_turns() {
  calls_to_turn_ = turn_length_;
  if (launch_.abandoned.load(std::memory_order_relaxed)) abandon();
  if (options().async_timing == AsyncTiming::random && !operations_.empty() && random() % kRandomTiming == 0) {
    perform_one();
  }
  const bool gives_way = chaos_ ? random() % kChaosTurn == 0 : turn_length_ > 1 || random() % kFairTurn == 0;
  if (gives_way) let_others_run();
}

void Scheduler::let_others_run() {
  if (ready_.empty()) return;
  ready_.push(*running_);
  leave_running();
}

void Scheduler::yield() {
  if (++polls_ > 2 * ready_.size() + 2) all_poll();
  let_others_run();
}

/// Every thread that runs asks again and again: what happens when nothing can run must happen now.
void Scheduler::all_poll() {
  if (wake_reached(nullptr)) return;
  if (!operations_.empty()) return perform_one();
  if (polls_ % kPollsBetweenClocks != 0) return;
  if (launch_.abandoned.load(std::memory_order_relaxed)) abandon();
  if (polled_for_long()) fail(describe_deadlock(*this));
}

bool Scheduler::polled_for_long() {
  if (polls_ == kPollsBetweenClocks) polling_since_ = now();
  return now() - polling_since_ > (launch_.workers.alone() ? kPollNanoseconds : kPollNanosecondsWithOthers);
}

std::uint64_t Scheduler::random() noexcept {  // splitmix64
  std::uint64_t bits = random_state_ += 0x9E3779B97F4A7C15u;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  return bits ^ bits >> 31;
}

// --- asynchronous operations
// -------------------------------------------------------------------------------------------

void Scheduler::submit(std::unique_ptr<AsyncOperation> operation, Site site) {
  moved();
  operation->issuer =
      performs() ? performing_.back()->issuer : AsyncOperation::Issuer{running_, site != 0 ? site : running_->site};
  if (options().async_timing == AsyncTiming::eager) return perform(std::move(operation));
  operations_.push_back(std::move(operation));
}

/// The operation is kept beside the stack, which it may leave for good.
void Scheduler::perform(std::unique_ptr<AsyncOperation> operation) {
  performing_.push_back(std::move(operation));
  performing_.back()->perform();
  performing_.pop_back();
}

/// The oldest, or any of them.
void Scheduler::perform_one() {
  moved();
  if (options().async_timing == AsyncTiming::random) {
    std::swap(operations_.front(), operations_[random() % operations_.size()]);
  }
  std::unique_ptr<AsyncOperation> operation = std::move(operations_.front());
  operations_.pop_front();
  perform(std::move(operation));
}

/// A host fault in it comes back here: there is no fiber to leave.
void Scheduler::perform_one_at_home() {
  if (sigsetjmp(home_escape_, 0) == 0) perform_one();
}

// --- switching
// ---------------------------------------------------------------------------------------------------------

Thread* Scheduler::take_ready() noexcept {
  if (ready_.empty()) return nullptr;
  return chaos_ ? &ready_.pop_at(random() % ready_.size()) : &ready_.pop();
}

/// Leaves the running thread, which waits or is ready again, and returns when it has its next turn.
void Scheduler::leave_running() {
  Thread& self = *running_;
  Thread* const next = take_ready();
  if (next == &self) return;
  if (next != nullptr) give_stack(*next);
  running_ = next;
  go(&self.stack_pointer, next != nullptr ? next->stack_pointer : home_, next != nullptr ? next->stack : nullptr);
  if (sanitizer::kOn && draining_) leave_for_good(home_, nullptr);
}

/// Switches to `stack`, which is the host thread's own where null.
void Scheduler::go(void** from, void* to, char* stack) noexcept {
  if constexpr (!sanitizer::kOn) return Fiber::switch_to(from, to);
  void* fake_stack = nullptr;
  sanitizer::before_switch(&fake_stack, stack != nullptr ? low_end(stack) : home_bottom_,
                           stack != nullptr ? usable_stack_bytes() : home_bytes_);
  Fiber::switch_to(from, to);
  sanitizer::after_switch(fake_stack, nullptr, nullptr);
}

void Scheduler::leave_for_good(void* to, char* stack) noexcept {
  sanitizer::before_switch(nullptr, stack != nullptr ? low_end(stack) : home_bottom_,
                           stack != nullptr ? usable_stack_bytes() : home_bytes_);
  Fiber::switch_to(&left_, to);  // no local variable: AddressSanitizer has just taken away what it keeps them in
  __builtin_unreachable();
}

void Scheduler::leave_after(const HostFault& fault) noexcept {
  fault_ = fault;
  left_for_good_ = std::exchange(running_, nullptr);
  abandoned_ = true;
  if (left_for_good_ == nullptr) siglongjmp(home_escape_, 1);
  leave_for_good(home_, nullptr);
}

void Scheduler::give_stack(Thread& thread) {
  if (thread.stack != nullptr) return;
  start(thread, free_stacks_.back());
  free_stacks_.pop_back();
  char* const low = low_end(thread.stack);
  sanitizer::reuse_stack(low, usable_stack_bytes());
  // Not all at the same distance from a multiple of 64 KiB: those would share a few sets of the caches.
  char* const high = reinterpret_cast<char*>(thread.context) - thread.index % 64 * kStagger;
  thread.stack_pointer = Fiber::make(low, high, &Scheduler::thread_main);
}

void Scheduler::start(Thread& thread, char* stack) {
  const Block& block = *thread.block;
  thread.stack = stack;
  thread.context = context_of_stack(stack);
  MoegenCpuContext& context = *thread.context = block.context;
  context.lane = thread.lane();
  context.warp = thread.warp();
  context.thread = &thread;
  const MoegenCpuIndex& dim = context.block_dim;
  context.thread_index = {thread.index % dim.x, thread.index / dim.x % dim.y, thread.index / dim.x / dim.y};
  moved();
}

void Scheduler::thread_main() {
  Scheduler& self = *current_;
  const bool first = self.home_bottom_ == nullptr;  // switched to from the host thread's own stack
  sanitizer::after_switch(nullptr, first ? &self.home_bottom_ : nullptr, first ? &self.home_bytes_ : nullptr);
  self.run_threads();
}

/// Runs the thread to its end. False if the model cannot go on; no exception may leave a fiber.
bool Scheduler::run_one() {
  try {
    launch_.entry(launch_.request.parameters);
    end_running();
    return true;
  } catch (const std::exception& error) {
    launch_.give_up(error);
    return false;
  }
}

/// A fiber's life: its thread, and on the same stack those after it that have not started.
void Scheduler::run_threads() {
  for (;;) {
    if (!run_one()) abandon();
    char* const stack = std::exchange(running_->stack, nullptr);
    running_ = take_ready();
    if (running_ != nullptr && running_->stack == nullptr) {
      start(*running_, stack);
      continue;
    }
    free_stacks_.push_back(stack);
    if (running_ == nullptr) leave_for_good(home_, nullptr);
    leave_for_good(running_->stack_pointer, running_->stack);
  }
}

void Scheduler::end_running() {
  Thread& thread = *running_;
  Block& block = *thread.block;
  moved();
  thread.ended = true;
  --live_;
  --block.live_threads;
  leave_warp(*this, thread);
  leave_barriers(*this, thread);
  leave_cluster(*this, thread);
  if (block.ended() && checker_ != nullptr) checker_->block_ended(block);
}

// --- the host thread's own stack
// ---------------------------------------------------------------------------------------

bool Scheduler::run(std::span<Cohort* const> cohorts, std::uint64_t seed) {
  bool ended = false;
  try {
    prepare(cohorts, seed);
    ended = loop();
  } catch (const Abandoned&) {
    ended = false;  // what was found is in the launch's reports
  } catch (const std::exception& error) {
    launch_.give_up(error);
  }
  if (!ended) launch_.abandoned = true;
  if (sanitizer::kOn && !ended) drain();
  running_ = nullptr;
  operations_.clear();
  performing_.clear();
  return ended;
}

/// Lets every fiber that was abandoned leave for good: AddressSanitizer keeps memory for each that does not.
void Scheduler::drain() {
  draining_ = true;
  for (Cohort* cohort : cohorts_) {
    for (const auto& block : cohort->blocks) {
      for (Thread* thread : block->threads) {
        if (thread->stack == nullptr || thread == left_for_good_) continue;
        running_ = thread;
        go(&home_, thread->stack_pointer, thread->stack);
      }
    }
  }
}

void Scheduler::prepare(std::span<Cohort* const> cohorts, std::uint64_t seed) {
  cohorts_ = cohorts;
  random_state_ = seed;
  live_ = 0;
  free_stacks_ = stacks_.all();
  watches_.clear();
  ready_.reset(stacks_.all().size());
  for (Cohort* cohort : cohorts) {
    for (const auto& block : cohort->blocks) {
      live_ += block->threads.size();
      for (Thread* thread : block->threads) ready_.push(*thread);
      if (checker_ != nullptr) checker_->block_started(*block);
    }
  }
}

/// Runs threads until all have ended, none can run or the launch is abandoned.
bool Scheduler::loop() {
  for (;;) {
    if (abandoned_ || launch_.abandoned.load(std::memory_order_relaxed)) break;
    if (Thread* const next = take_ready()) {
      enter(*next);
    } else if (!progress()) {
      if (live_ == 0) return true;
      if (!launch_.abandoned) launch_.reports.add_last(describe_deadlock(*this));
      break;
    }
  }
  if (fault_.signal != 0) report_fault();
  return false;
}

void Scheduler::enter(Thread& thread) {
  give_stack(thread);
  running_ = &thread;
  go(&home_, thread.stack_pointer, thread.stack);
}

/// Where no thread can run: does what may wake one. False if there is nothing of the kind.
bool Scheduler::progress() {
  if (wake_reached(nullptr)) return true;
  if (!operations_.empty()) {
    perform_one_at_home();
    return true;
  }
  return !watches_.empty() && launch_.workers.wait_for_others(*this);
}

// --- findings
// ----------------------------------------------------------------------------------------------------------

std::string Scheduler::place(Site site) const { return launch_.program.sites.describe(site); }

CpuParty Scheduler::party(const Thread& thread, std::string action, Site site) const {
  return {thread.block->index, thread.index, std::move(action), place(site)};
}

void Scheduler::report(CpuReport report) { launch_.reports.add(std::move(report)); }

void Scheduler::fail(CpuReport report) {
  launch_.reports.add_last(std::move(report));
  abandon();
}

CpuReport Scheduler::report_of(CpuFinding finding, std::string what, Site site, std::string action) const {
  CpuReport found{.finding = finding, .what = std::move(what), .parties = {}, .repeats = 0};
  if (performs()) {
    const AsyncOperation::Issuer& issuer = performing_.back()->issuer;
    found.parties.push_back(party(*issuer.thread, std::move(action), site != 0 ? site : issuer.site));
  } else if (running_ != nullptr) {
    found.parties.push_back(party(*running_, std::move(action), site));
  }
  return found;
}

void Scheduler::report(CpuFinding finding, std::string what, Site site, std::string action) {
  report(report_of(finding, std::move(what), site, std::move(action)));
}

void Scheduler::fail(CpuFinding finding, std::string what, Site site, std::string action) {
  fail(report_of(finding, std::move(what), site, std::move(action)));
}

void Scheduler::abandon() {
  launch_.abandoned = true;
  abandoned_ = true;
  if (running_ == nullptr) throw Abandoned{};
  left_for_good_ = std::exchange(running_, nullptr);
  leave_for_good(home_, nullptr);
}

void Scheduler::report_fault() {
  const char* const stack = left_for_good_ != nullptr ? left_for_good_->stack : nullptr;
  const bool of_operation = performs();
  const AsyncOperation::Issuer issuer =
      of_operation ? performing_.back()->issuer : AsyncOperation::Issuer{left_for_good_, left_for_good_->site};
  CpuReport found{.finding = CpuFinding::fault,
                  .what = describe_fault(*this, *issuer.thread, stack, fault_),
                  .parties = {},
                  .repeats = 0};
  found.parties.push_back(party(
      *issuer.thread, of_operation ? "issued the operation that ran into it" : "ran into it after its last known place",
      issuer.site));
  launch_.reports.add_last(std::move(found));
}

}  // namespace moegen::cpu
