// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

// Each thread leaves its number in shared memory and takes its neighbour's, ten times.
void rotate(void** parameters) {
  auto* const out = static_cast<std::uint32_t*>(parameters[0]);
  auto* const words = shared<std::uint32_t>();
  const std::uint32_t threads = context().block_dim.x;
  std::uint32_t value = my_block() * 1000 + me();
  for (int round = 0; round < 10; ++round) {
    words[me()] = value;
    moegen_cpu_block_sync(0, 0, 1);
    value = words[(me() + 1) % threads];
    moegen_cpu_block_sync(0, 0, 2);
  }
  out[my_block() * threads + me()] = value;
}

std::vector<std::uint32_t> rotated(std::uint32_t blocks, std::uint32_t threads) {
  std::vector<std::uint32_t> expected;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      expected.push_back(block * 1000 + (thread + 10) % threads);
    }
  }
  return expected;
}

std::string misuse(cpu::HostEntry function, std::uint32_t threads = 64) {
  const auto reports = HostLaunch(function).block(threads).run();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::misuse);
  return text(reports);
}

}  // namespace

TEST_CASE("threads of a block meet at its barrier") {
  for (const std::uint32_t threads : {1u, 32u, 48u, 256u, 1024u}) {
    std::vector<std::uint32_t> out(std::size_t{5} * threads, 77);
    CHECK(text(HostLaunch(rotate).grid(5).block(threads).shared(4 * threads).run(out.data())) == "");
    CHECK(out == rotated(5, threads));
  }
}

TEST_CASE("and in chaos, several blocks interleaved") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<std::uint32_t> out(6 * 96, 77);
    CHECK(text(HostLaunch(rotate).grid(6).block(96).shared(4 * 96).chaos(seed).run(out.data())) == "");
    CHECK(out == rotated(6, 96));
  }
}

TEST_CASE("a named barrier joins the warps that name it") {
  // Warps 0 and 1 meet at barrier 1, 2 and 3 at barrier 2, each as often as it likes.
  std::uint32_t sums[2] = {};
  const auto kernel = [](void** parameters) {
    auto* const results = static_cast<std::uint32_t*>(parameters[0]);
    const std::uint32_t half = me() / 64;
    auto* const words = shared<std::uint32_t>() + std::size_t{64} * half;
    for (std::uint32_t round = 1; round <= 3 + 4 * half; ++round) {
      words[me() % 64] = round;
      moegen_cpu_block_sync(1 + half, 64, 1);
      if (me() % 64 == round) {
        for (int i = 0; i < 64; ++i) results[half] += words[i];
      }
      moegen_cpu_block_sync(1 + half, 64, 2);
    }
  };
  CHECK(text(HostLaunch(kernel).block(128).shared(512).run(sums)) == "");
  CHECK(sums[0] == 64 * (1 + 2 + 3));
  CHECK(sums[1] == 64 * (1 + 2 + 3 + 4 + 5 + 6 + 7));
}

TEST_CASE("bar.arrive does not wait, and counts") {
  std::vector<std::uint32_t> trace;
  const auto kernel = [](void** parameters) {
    auto& order = parameter<std::vector<std::uint32_t>>(parameters);
    if (me() < 32) {
      moegen_cpu_block_sync(3, 64, 1);
      if (me() == 0) order.push_back(0);
    } else {
      if (me() == 63) order.push_back(63);
      moegen_cpu_block_arrive(3, 64, 2);
      if (me() == 63) order.push_back(64);
    }
  };
  CHECK(text(HostLaunch(kernel).block(64).run(&trace)) == "");
  CHECK(trace == std::vector{63u, 64u, 0u});
}

TEST_CASE("threads that have ended count as arrived at the block's barrier") {
  std::uint32_t passed = 0;
  const auto kernel = [](void** parameters) {
    if (me() % 3 == 1) return;
    moegen_cpu_block_sync(0, 0, 1);
    if (me() % 3 == 2) return;
    moegen_cpu_block_sync(0, 0, 2);
    add(parameter<std::uint32_t>(parameters), 1);
  };
  CHECK(text(HostLaunch(kernel).block(96).run(&passed)) == "");
  CHECK(passed == 32);
}

TEST_CASE("a count means whole warps, also of a block that ends within one") {
  std::uint32_t passed = 0;
  const auto kernel = [](void** parameters) {
    moegen_cpu_block_sync(2, 64, 1);
    if (me() >= 32) moegen_cpu_block_sync(1, 32, 2);
    add(parameter<std::uint32_t>(parameters), 1);
  };
  CHECK(text(HostLaunch(kernel).block(48).run(&passed)) == "");
  CHECK(passed == 48);
}

TEST_CASE("barriers against their rules") {
  CHECK(misuse([](void**) { moegen_cpu_block_sync(16, 0, 1); }) ==
        "bar.sync 16: a block has 16 barriers, 0 to 15\n0/0 bar.sync @k.cu:10 in f\n");
  CHECK(misuse([](void**) { moegen_cpu_block_sync(1, 48, 2); }) ==
        "bar.sync 1: 48 threads is not a multiple of 32\n0/0 bar.sync @k.cu:20 in f\n");
  CHECK(misuse([](void**) { moegen_cpu_block_sync(1, 96, 2); }) ==
        "bar.sync 1: 96 threads, but the block has 64\n0/0 bar.sync @k.cu:20 in f\n");
  CHECK(misuse([](void**) { moegen_cpu_block_arrive(1, 0, 3); }) ==
        "bar.arrive 1: without a number of threads\n0/0 bar.arrive @k.cu:30 in f\n");
  CHECK(misuse([](void**) { moegen_cpu_block_sync(1, me() < 32 ? 64 : 32, me() < 32 ? 1 : 2); }) ==
        "bar.sync 1: 32 threads here, 64 elsewhere\n"
        "0/32 bar.sync 1 @k.cu:20 in f\n"
        "0/31 arrived at barrier 1 @k.cu:10 in f\n");
}

TEST_CASE("no count and the count of all are the same") {
  std::uint32_t passed = 0;
  const auto kernel = [](void** parameters) {
    moegen_cpu_block_sync(0, me() < 32 ? 64 : 0, 1);
    add(parameter<std::uint32_t>(parameters), 1);
  };
  CHECK(text(HostLaunch(kernel).block(64).run(&passed)) == "");
  CHECK(passed == 64);
}

TEST_CASE("shared memory is 1024-byte aligned and poisoned before each block") {
  std::uint32_t bad = 0;
  const auto kernel = [](void** parameters) {
    auto* const bytes = shared<unsigned char>();
    auto& count = parameter<std::uint32_t>(parameters);
    if (reinterpret_cast<std::uintptr_t>(bytes) % 1024 != 0) ++count;
    for (int i = 0; i < 3000; ++i) count += bytes[i] != 0xA5;
    for (int i = 0; i < 3000; ++i) bytes[i] = 0;
  };
  CHECK(text(HostLaunch(kernel).grid(4).shared(3000).run(&bad)) == "");
  CHECK(bad == 0);
}

TEST_CASE("a thread knows where it is") {
  std::vector<std::uint32_t> seen;
  const auto kernel = [](void** parameters) {
    const MoegenCpuContext& self = context();
    CHECK(self.block_dim.y == 2);
    CHECK(self.grid_dim.z == 2);
    CHECK(self.lane == (self.thread_index.x + 3 * (self.thread_index.y + 2 * self.thread_index.z)) % 32);
    CHECK(self.warp == (self.thread_index.x + 3 * (self.thread_index.y + 2 * self.thread_index.z)) / 32);
    const std::uint32_t block = self.block_index.x + 2 * (self.block_index.y + 3 * self.block_index.z);
    parameter<std::vector<std::uint32_t>>(parameters).push_back(block * 100 + self.warp * 32 + self.lane);
  };
  HostLaunch launch(kernel);
  launch.request.grid[0] = 2, launch.request.grid[1] = 3, launch.request.grid[2] = 2;
  launch.request.block[0] = 3, launch.request.block[1] = 2, launch.request.block[2] = 7;
  CHECK(text(launch.run(&seen)) == "");
  REQUIRE(seen.size() == 12 * 42);
  for (std::uint32_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == i / 42 * 100 + i % 42);
}
