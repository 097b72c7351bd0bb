// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/model/fiber.hpp"
#include "cpu/model/sanitizer.hpp"
#include "cpu/model/stacks.hpp"

using namespace moegen::cpu;

namespace {

/// Two stacks and the host thread's own, for one test at a time.
template <class F>
struct Ring {
  static inline Ring* current = nullptr;
  explicit Ring(FiberEntry first, FiberEntry second) : stacks(StackPool::process().take(2)) {
    current = this;
    fiber[0] = make(0, first);
    fiber[1] = make(1, second);
  }
  void* make(std::size_t i, FiberEntry entry) {
    char* const stack = stacks.all()[i];
    return F::make(low_end(stack), reinterpret_cast<char*>(context_of_stack(stack)), entry);
  }
  /// `stack` 2 is the host thread's.
  void go(void*& from, void* to, std::size_t stack) {
    void* fake = nullptr;
    const bool own = stack == 2;
    sanitizer::before_switch(&fake, own ? home_bottom : low_end(stacks.all()[stack]),
                             own ? home_bytes : usable_stack_bytes());
    F::switch_to(&from, to);
    sanitizer::after_switch(fake, nullptr, nullptr);
  }
  static void arrived() {
    const bool first = current->home_bottom == nullptr;
    sanitizer::after_switch(nullptr, first ? &current->home_bottom : nullptr, first ? &current->home_bytes : nullptr);
  }
  Stacks stacks;
  std::array<void*, 2> fiber{};
  void* home = nullptr;
  const void* home_bottom = nullptr;
  std::size_t home_bytes = 0;
  std::vector<int> trace;
  double sum = 0;
};

template <class F>
void first() {
  Ring<F>::arrived();
  Ring<F>& ring = *Ring<F>::current;
  double x = 0.5;
  for (int i = 0; i < 3; ++i) {
    ring.trace.push_back(i);
    x *= 3;
    ring.go(ring.fiber[0], ring.fiber[1], 1);
  }
  ring.sum += x;
  ring.go(ring.fiber[0], ring.home, 2);
}

template <class F>
void second() {
  Ring<F>::arrived();
  Ring<F>& ring = *Ring<F>::current;
  double y = 100;
  for (int i = 10;; ++i) {
    ring.trace.push_back(i);
    y += i;
    ring.sum = y;
    ring.go(ring.fiber[1], ring.fiber[0], 0);
  }
}

/// The address of a frame, for the alignment that calls need.
template <class F>
void aligned() {
  Ring<F>::arrived();
  Ring<F>& ring = *Ring<F>::current;
  ring.trace.push_back(static_cast<int>(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) % 16));
  ring.go(ring.fiber[0], ring.home, 2);
}

template <class F>
void bounce() {
  Ring<F>::arrived();
  for (;;) Ring<F>::current->go(Ring<F>::current->fiber[0], Ring<F>::current->home, 2);
}

template <class F>
double nanoseconds_a_switch() {
  constexpr int kRounds = 100000;
  Ring<F> ring(&bounce<F>, &bounce<F>);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) ring.go(ring.home, ring.fiber[0], 0);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  return spent.count() / (2 * kRounds);
}

}  // namespace

TEST_CASE_TEMPLATE("fibers run in turns and keep what they have on their stacks", F, NativeFiber, PortableFiber) {
  Ring<F> ring(&first<F>, &second<F>);
  ring.go(ring.home, ring.fiber[0], 0);
  CHECK(ring.trace == std::vector{0, 10, 1, 11, 2, 12});
  CHECK(ring.sum == 100 + 10 + 11 + 12 + 0.5 * 27);
}

TEST_CASE_TEMPLATE("a new fiber's stack is aligned as a call wants it", F, NativeFiber, PortableFiber) {
  Ring<F> ring(&aligned<F>, &aligned<F>);
  ring.go(ring.home, ring.fiber[0], 0);
  CHECK(ring.trace == std::vector{0});
}

TEST_CASE_TEMPLATE("cost of a switch", F, NativeFiber, PortableFiber) {
  MESSAGE(nanoseconds_a_switch<F>(), " ns a switch");
}

TEST_CASE("stacks lie at multiples of their size and come back") {
  const std::size_t count = 300;
  std::vector<char*> first_time;
  {
    const Stacks stacks = StackPool::process().take(count);
    REQUIRE(stacks.all().size() == count);
    for (char* stack : stacks.all()) {
      CHECK(reinterpret_cast<std::uintptr_t>(stack) % MOEGEN_CPU_STACK_BYTES == 0);
      CHECK(context_of_stack(stack) == context_of_stack(stack + 5000));
      CHECK(reinterpret_cast<char*>(context_of_stack(stack) + 1) == stack + MOEGEN_CPU_STACK_BYTES);
    }
    first_time = stacks.all();
  }
  CHECK(StackPool::process().take(count).all() == first_time);
}

TEST_CASE("a process has a limit of stacks, and reaching it is no failure") {
  CHECK(StackPool::process().take(kMaxStacks + 1).all().empty());
  const Stacks all = StackPool::process().take(kMaxStacks);
  CHECK(all.all().size() == kMaxStacks);
  CHECK(StackPool::process().take(1).all().empty());
}

TEST_CASE("an address in the guard page is told from the stack") {
  const Stacks one = StackPool::process().take(1);
  char* const stack = one.all()[0];
  const auto at = reinterpret_cast<std::uintptr_t>(stack);
  CHECK(in_guard_page(stack, at));
  CHECK(in_guard_page(stack, reinterpret_cast<std::uintptr_t>(low_end(stack)) - 1));
  CHECK_FALSE(in_guard_page(stack, reinterpret_cast<std::uintptr_t>(low_end(stack))));
  CHECK_FALSE(in_guard_page(stack, at - 1));
}
