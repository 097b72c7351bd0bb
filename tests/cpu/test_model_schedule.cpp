// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;
using Trace = std::vector<std::uint32_t>;

namespace {

void note(Trace& trace, std::uint32_t step) { trace.push_back(my_block() * 1000 + me() * 10 + step); }

void steps(void** parameters) {
  auto& trace = parameter<Trace>(parameters);
  note(trace, 0);
  moegen_cpu_warp_sync(1u << context().lane, 1);
  note(trace, 1);
  moegen_cpu_block_sync(0, 0, 2);
  note(trace, 2);
}

Trace chaos_trace(std::uint64_t seed) {
  Trace trace;
  CHECK(text(HostLaunch(steps).grid(6).block(8).chaos(seed).run(&trace)) == "");
  return trace;
}

// A missing barrier: every thread reads what its lower neighbour has not written if that one runs later.
void reads_too_early(void** parameters) {
  auto* const words = shared<std::uint32_t>();
  words[me()] = 5;
  moegen_cpu_warp_sync(1u << context().lane, 1);  // a point where chaos may run others first, and no barrier
  if (me() > 0 && words[me() - 1] != 5) add(parameter<std::uint32_t>(parameters), 1);
}

/// Adds to a word when it takes place.
class Addition final : public cpu::AsyncOperation {
 public:
  Addition(std::vector<std::uint32_t>& trace, std::uint32_t value) : trace_(trace), value_(value) {}
  void perform() override { trace_.push_back(value_); }

 private:
  std::vector<std::uint32_t>& trace_;
  std::uint32_t value_;
};

// Three operations are issued between four notes of the thread.
void issue(void** parameters) {
  auto& trace = parameter<Trace>(parameters);
  for (std::uint32_t i = 1; i <= 4; ++i) {
    trace.push_back(i);
    if (i < 4) cpu::Scheduler::current().submit(std::make_unique<Addition>(trace, 10 * i));
    moegen_cpu_warp_sync(1u << context().lane, 1);
  }
}

Trace issued(AsyncTiming timing, std::uint64_t seed = 1) {
  Trace trace;
  HostLaunch launch(issue);
  launch.request.options.seed = seed;
  CHECK(text(launch.timing(timing).run(&trace)) == "");
  return trace;
}

}  // namespace

TEST_CASE("fair: blocks in order, threads in turns") {
  Trace trace;
  CHECK(text(HostLaunch(steps).grid(2).block(2).run(&trace)) == "");
  CHECK(trace == Trace{0, 1, 10, 11, 12, 2, 1000, 1001, 1010, 1011, 1012, 1002});
}

TEST_CASE("chaos: the same seed gives the same order, others other orders") {
  const Trace one = chaos_trace(1);
  REQUIRE(one.size() == 6 * 8 * 3);
  CHECK(one == chaos_trace(1));
  std::set<Trace> orders;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) orders.insert(chaos_trace(seed));
  CHECK(orders.size() == 8);
}

TEST_CASE("chaos: threads and blocks start in any order, and blocks are interleaved") {
  const Trace trace = chaos_trace(2);
  std::set<std::uint32_t> first_blocks, first_threads;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    const Trace order = chaos_trace(seed);
    first_blocks.insert(order[0] / 1000);
    first_threads.insert(order[0] % 1000 / 10);
  }
  CHECK(first_blocks.size() >= 4);
  CHECK(first_threads.size() >= 4);
  std::uint32_t changes = 0;
  for (std::size_t i = 1; i < trace.size(); ++i) changes += trace[i] / 1000 != trace[i - 1] / 1000;
  CHECK(changes > 30);
}

TEST_CASE("chaos shows a missing barrier that the fair order hides") {
  std::uint32_t wrong = 0;
  CHECK(text(HostLaunch(reads_too_early).grid(4).block(64).shared(256).run(&wrong)) == "");
  CHECK(wrong == 0);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    wrong = 0;
    CHECK(text(HostLaunch(reads_too_early).grid(4).block(64).shared(256).chaos(seed).run(&wrong)) == "");
    CHECK(wrong > 10);
  }
}

TEST_CASE("when asynchronous operations take place") {
  CHECK(issued(AsyncTiming::eager) == Trace{1, 10, 2, 20, 3, 30, 4});
  CHECK(issued(AsyncTiming::late) == Trace{1, 2, 3, 4, 10, 20, 30});
  std::set<Trace> orders;
  bool out_of_order = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Trace trace = issued(AsyncTiming::random, seed);
    CHECK(trace == issued(AsyncTiming::random, seed));
    orders.insert(trace);
    for (std::uint32_t i = 1; i <= 3; ++i) {
      CHECK(std::ranges::find(trace, i) < std::ranges::find(trace, 10 * i));
    }
    out_of_order |= std::ranges::find(trace, 20) < std::ranges::find(trace, 10);
  }
  CHECK(orders.size() > 8);
  CHECK(out_of_order);
}

TEST_CASE("a thread that asks in a loop gets late operations, too") {
  Trace trace;
  const auto kernel = [](void** parameters) {
    auto& done = parameter<Trace>(parameters);
    if (me() == 0) cpu::Scheduler::current().submit(std::make_unique<Addition>(done, 1));
    while (done.empty()) cpu::Scheduler::current().yield();
  };
  CHECK(text(HostLaunch(kernel).block(3).run(&trace)) == "");
  CHECK(trace == Trace{1});
}

TEST_CASE("an operation that finds something wrong where no thread runs") {
  struct Failing final : cpu::AsyncOperation {
    void perform() override { cpu::Scheduler::current().fail(CpuFinding::misuse, "copied too much", 1, "copies"); }
  };
  const auto kernel = [](void**) {
    cpu::Scheduler::current().submit(std::make_unique<Failing>());
    if (me() == 0) moegen_cpu_block_sync(1, 64, 1);
  };
  CHECK(text(HostLaunch(kernel).block(64).run()) == "copied too much\n0/0 copies @k.cu:10 in f\n");
}

TEST_CASE("blocks are spread over threads of the host") {
  struct Seen {
    std::mutex mutex;
    std::set<std::thread::id> hosts;
    Trace blocks;
  } seen;
  const auto kernel = [](void** parameters) {
    auto& all = parameter<Seen>(parameters);
    moegen_cpu_block_sync(0, 0, 1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    const std::lock_guard lock(all.mutex);
    all.hosts.insert(std::this_thread::get_id());
    all.blocks.push_back(my_block() * 100 + me());
  };
  CHECK(text(HostLaunch(kernel).grid(100).block(4).threads(4).run(&seen)) == "");
  CHECK(seen.hosts.size() == 4);
  std::ranges::sort(seen.blocks);
  REQUIRE(seen.blocks.size() == 400);
  for (std::uint32_t i = 0; i < 400; ++i) CHECK(seen.blocks[i] == i / 4 * 100 + i % 4);
}

TEST_CASE("launches from several threads of the host at once") {
  std::vector<std::jthread> hosts;
  std::vector<std::uint32_t> sums(4);
  for (std::uint32_t& sum : sums) {
    hosts.emplace_back([&sum] {
      const auto kernel = [](void** parameters) {
        moegen_cpu_block_sync(0, 0, 1);
        add(parameter<std::uint32_t>(parameters), me());
      };
      for (int i = 0; i < 10; ++i) HostLaunch(kernel).grid(8).block(128).threads(2).run(&sum);
    });
  }
  hosts.clear();
  for (const std::uint32_t sum : sums) CHECK(sum == 10 * 8 * 127 * 64);
}

TEST_CASE("a finding on one thread of the host stops the others") {
  std::uint32_t count = 0;
  const auto kernel = [](void** parameters) {
    auto& spinning = parameter<std::uint32_t>(parameters);
    if (my_block() == 1) {
      while (load(spinning) < 1) {
      }
      moegen_cpu_trap(2);
    }
    add(spinning, 1);
    while (load(spinning) < 1000) {
    }
  };
  const auto reports = HostLaunch(kernel).grid(2).threads(2).run(&count);
  CHECK(text(reports) == "the kernel trapped\n1/0 trap @k.cu:20 in f\n");
}
