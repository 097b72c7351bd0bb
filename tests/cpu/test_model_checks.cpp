// SPDX-License-Identifier: Apache-2.0
// What the model tells the checks, recorded.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cpu/buffers.hpp"
#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

using Calls = std::vector<std::string>;

/// Notes what it is told; objects by the order in which it first saw them.
class Recorder final : public cpu::Checker {
 public:
  explicit Recorder(Calls& calls) : calls_(calls) {}

  void block_started(const cpu::Block& block) override { note("started {}", block.index); }
  void block_ended(const cpu::Block& block) override { note("ended {}", block.index); }
  void access(cpu::Thread& thread, const void* address, std::uint32_t bytes, std::uint32_t alignment, cpu::Access kind,
              cpu::Scope scope, cpu::Site site) override {
    note("{} access {} of {} bytes, alignment {}, kind {}, scope {}, site {}", who(thread), name(address), bytes,
         alignment, static_cast<int>(kind), static_cast<int>(scope), site);
  }
  void join(const cpu::Block& block, std::span<const std::uint32_t> threads) override {
    note("join of block {}: {}", block.index, fmt::format("{}", fmt::join(threads, " ")));
  }
  void release(cpu::Thread& thread, const void* object) override { note("{} releases {}", who(thread), name(object)); }
  void acquire(cpu::Thread& thread, const void* object) override { note("{} acquires {}", who(thread), name(object)); }
  void forget(const void* object) override { note("forget {}", name(object)); }
  void fence(cpu::Thread& thread) override { note("{} fence", who(thread)); }
  void fence_proxy(cpu::Thread& thread) override { note("{} fence between proxies", who(thread)); }
  cpu::Actor fork(const cpu::Block&, std::span<const std::uint32_t>, const char*, cpu::Site) override { return {}; }
  void access(const cpu::Actor&, const void*, std::uint32_t, std::uint32_t, cpu::Access) override {}
  void release(const cpu::Actor&, const void*) override {}
  void set_swizzle(const cpu::Actor&, std::uint32_t) override {}
  void set_async_proxy(const cpu::Actor&) override {}
  void acquire(const cpu::Actor&, const void*) override {}
  void end(const cpu::Actor&) override {}

 private:
  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    calls_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  static std::string who(const cpu::Thread& thread) { return fmt::format("{}/{}", thread.block->index, thread.index); }
  char name(const void* object) {
    const auto known = std::ranges::find(objects_, object);
    if (known != objects_.end()) return static_cast<char>('a' + (known - objects_.begin()));
    objects_.push_back(object);
    return static_cast<char>('a' + objects_.size() - 1);
  }

  Calls& calls_;
  std::vector<const void*> objects_;
};

Calls record(HostLaunch& launch, void* parameter = nullptr) {
  Calls calls;
  launch.request.options.check = true;
  const auto make = [&](const cpu::LaunchRequest&) { return std::make_unique<Recorder>(calls); };
  CHECK(text(launch.threads(4).run(parameter, make)) == "");
  return calls;
}

constexpr unsigned kAcquireRelease = MOEGEN_CPU_ACQUIRE | MOEGEN_CPU_RELEASE;

}  // namespace

TEST_CASE("blocks start and end one after the other on one thread of the host") {
  HostLaunch launch([](void**) {});
  CHECK(record(launch.grid(3)) == Calls{"started 0", "ended 0", "started 1", "ended 1", "started 2", "ended 2"});
}

TEST_CASE("accesses of kernel text") {
  HostLaunch launch([](void** parameters) {
    moegen_cpu_access(static_cast<const void*>(parameters), 16, 8, 0, 1);
    moegen_cpu_access(static_cast<const void*>(parameters + 1), 4, 4, 1, 2);
  });
  CHECK(record(launch) == Calls{"started 0", "0/0 access a of 16 bytes, alignment 8, kind 0, scope 0, site 1",
                                "0/0 access b of 4 bytes, alignment 4, kind 1, scope 0, site 2", "ended 0"});
}

TEST_CASE("a barrier joins those that wait, and those that only arrive release to it") {
  HostLaunch all([](void**) { moegen_cpu_block_sync(0, 0, 1); });
  CHECK(record(all.block(3)) == Calls{"started 0", "join of block 0: 0 1 2", "ended 0"});

  HostLaunch named([](void**) {
    if (me() < 32) {
      moegen_cpu_block_arrive(1, 64, 1);
    } else {
      moegen_cpu_block_sync(1, 64, 2);
    }
  });
  const Calls calls = record(named.block(64));
  REQUIRE(calls.size() == 1 + 32 + 1 + 32 + 1 + 1);
  CHECK(calls[1] == "0/0 releases a");
  CHECK(calls[32] == "0/31 releases a");
  CHECK(calls[33].starts_with("join of block 0: 32 33 34"));
  CHECK(calls[34] == "0/32 acquires a");
  CHECK(calls[65] == "0/63 acquires a");
  CHECK(calls[66] == "forget a");
}

TEST_CASE("an exchange orders nothing, warp_sync does") {
  HostLaunch launch([](void**) {
    moegen_cpu_warp_exchange(7, 0, 1);
    moegen_cpu_warp_sync(7, 2);
  });
  CHECK(record(launch.block(3)) == Calls{"started 0", "join of block 0: 0 1 2", "ended 0"});
}

TEST_CASE("the cluster's barrier releases on arrival and acquires after the wait") {
  HostLaunch launch([](void**) {
    moegen_cpu_cluster_arrive(1);
    moegen_cpu_cluster_wait(2);
    moegen_cpu_cluster_arrive(1);
    moegen_cpu_cluster_wait(2);
  });
  CHECK(record(launch.grid(2).cluster(2)) == Calls{"started 0", "started 1", "0/0 releases a", "1/0 releases a",
                                                   "forget b", "1/0 acquires a", "1/0 releases b", "0/0 acquires a",
                                                   "0/0 releases b", "forget a", "0/0 acquires b", "ended 0",
                                                   "1/0 acquires b", "ended 1"});
}

TEST_CASE("atomic operations release before and acquire after, as their order says") {
  std::uint32_t word = 0;
  HostLaunch launch([](void** parameters) {
    auto& target = parameter<std::uint32_t>(parameters);
    add(target, 1, MOEGEN_CPU_RELAXED, 1);
    add(target, 1, kAcquireRelease | MOEGEN_CPU_SCOPE_DEVICE, 2);
    load(target, MOEGEN_CPU_ACQUIRE | MOEGEN_CPU_SCOPE_CLUSTER, 3);
    moegen_cpu_atomic(&target, 4, MOEGEN_CPU_ATOMIC_STORE, 1, 0, kAcquireRelease, 4);
    moegen_cpu_wait_at_least(&target, 4, 1, MOEGEN_CPU_ACQUIRE | MOEGEN_CPU_SCOPE_SYSTEM, 5);
  });
  CHECK(record(launch, &word) ==
        Calls{"started 0", "0/0 access a of 4 bytes, alignment 4, kind 2, scope 0, site 1",
              "0/0 access a of 4 bytes, alignment 4, kind 2, scope 2, site 2", "0/0 releases a", "0/0 acquires a",
              "0/0 access a of 4 bytes, alignment 4, kind 3, scope 1, site 3", "0/0 acquires a",
              "0/0 access a of 4 bytes, alignment 4, kind 4, scope 0, site 4", "0/0 releases a",
              "0/0 access a of 4 bytes, alignment 4, kind 3, scope 3, site 5", "0/0 acquires a", "ended 0"});
}

TEST_CASE("fences are told in their place") {
  std::uint32_t word = 0;
  HostLaunch launch([](void** parameters) {
    moegen_cpu_fence(MOEGEN_CPU_SCOPE_DEVICE, 1);
    add(parameter<std::uint32_t>(parameters), 1);
    moegen_cpu_fence(MOEGEN_CPU_ACQUIRE, 2);
  });
  CHECK(record(launch, &word) == Calls{"started 0", "0/0 fence",
                                       "0/0 access a of 4 bytes, alignment 4, kind 2, scope 2, site 0", "0/0 fence",
                                       "ended 0"});
}

TEST_CASE("checked chaos is reproducible") {
  HostLaunch launch([](void**) {
    moegen_cpu_warp_sync(1u << context().lane, 1);
    moegen_cpu_block_sync(0, 0, 1);
  });
  launch.grid(8).block(16);
  const Calls one = record(launch.chaos(5));
  CHECK(one == record(launch.chaos(5)));
  CHECK(one != record(launch.chaos(6)));
}

TEST_CASE("an access to the shared memory of a block that has ended") {
  HostLaunch launch([](void**) {
    void* const peer = moegen_cpu_map_cluster_shared(shared<char>() + 8, 1 - context().cluster_rank, 1);
    moegen_cpu_cluster_arrive(2);
    moegen_cpu_cluster_wait(3);
    if (context().cluster_rank == 1) moegen_cpu_access(peer, 4, 4, 0, 4);
  });
  Calls calls;
  launch.request.options.check = true;
  launch.grid(2).cluster(2).shared(64);
  std::string found;
  for (std::uint64_t seed = 1; seed <= 8 && found.empty(); ++seed) {
    found = text(
        launch.chaos(seed).run(nullptr, [&](const cpu::LaunchRequest&) { return std::make_unique<Recorder>(calls); }));
  }
  CHECK(found == "shared+0x8 of block 0, which has ended\n1/0 read @k.cu:40 in f\n");
}

// Clusters run one after the other in the same memory; the barrier of one must not order what the other does.
TEST_CASE("a race between clusters that each pass a barrier of their own") {
  struct Words {
    alignas(256) std::uint32_t word[64] = {};
  } words;
  cpu::Buffers buffers;
  REQUIRE_FALSE(
      buffers.add({reinterpret_cast<std::uintptr_t>(&words), reinterpret_cast<std::uintptr_t>(&words + 1), "words"})
          .has_value());
  HostLaunch launch([](void** parameters) {
    const void* const word = parameter<Words>(parameters).word;
    if (my_block() == 0) moegen_cpu_access(word, 4, 4, 1, 1);
    moegen_cpu_cluster_arrive(2);
    moegen_cpu_cluster_wait(3);
    if (my_block() != 0) moegen_cpu_access(word, 4, 4, 0, 4);
  });
  launch.request.options.check = true;
  launch.request.buffers = &buffers;
  CHECK(text(launch.grid(2).cluster(2).run(&words, cpu::make_checker)) == "");
  const auto reports = launch.grid(4).run(&words, cpu::make_checker);
  REQUIRE(reports.size() >= 1);
  CHECK(reports[0].finding == CpuFinding::race_global);
  REQUIRE(reports[0].parties.size() == 2);
  CHECK(reports[0].parties[0].block >= 2);
  CHECK(reports[0].parties[1].block == 0);
}
