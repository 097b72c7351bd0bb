// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

constexpr std::uint32_t kAll = 0xFFFFFFFFu;

std::string divergence(cpu::HostEntry function, std::uint32_t threads = 32) {
  const auto reports = HostLaunch(function).block(threads).run();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::divergence);
  return text(reports);
}

std::uint64_t* present_of(void** parameters) { return static_cast<std::uint64_t*>(parameters[0]); }

}  // namespace

TEST_CASE("lanes take each other's values") {
  for (const bool chaos : {false, true}) {
    std::vector<std::uint64_t> out(2 * 96);
    const auto kernel = [](void** parameters) {
      std::uint64_t value = me() + 100 * my_block();
      for (int round = 0; round < 40; ++round) {
        value = moegen_cpu_warp_exchange(kAll, value, 1)[(context().lane + 1) % 32];
      }
      static_cast<std::uint64_t*>(parameters[0])[my_block() * 96 + me()] = value;
    };
    HostLaunch launch(kernel);
    if (chaos) launch.chaos(3);
    CHECK(text(launch.grid(2).block(96).run(out.data())) == "");
    for (std::uint32_t i = 0; i < out.size(); ++i) {
      const std::uint32_t thread = i % 96;
      CHECK(out[i] == i / 96 * 100 + thread / 32 * 32 + (thread + 40) % 32);
    }
  }
}

TEST_CASE("results stay until the lane's next exchange, whatever the others do meanwhile") {
  // Lanes 0..15 go on among themselves before lanes 16..31 look at what all of them left.
  std::vector<std::uint64_t> sums(32);
  const auto kernel = [](void** parameters) {
    const unsigned long* const all = moegen_cpu_warp_exchange(kAll, me(), 1);
    if (me() < 16) {
      unsigned long sum = 0;
      for (int i = 0; i < 32; ++i) sum += all[i];
      for (unsigned long round = 0; round < 5; ++round) sum += moegen_cpu_warp_exchange(0xFFFF, 1000 * round, 2)[3];
      static_cast<std::uint64_t*>(parameters[0])[me()] = sum;
      moegen_cpu_block_sync(0, 0, 3);
    } else {
      moegen_cpu_block_sync(0, 0, 4);
      for (int i = 0; i < 32; ++i) static_cast<std::uint64_t*>(parameters[0])[me()] += all[i];
    }
  };
  CHECK(text(HostLaunch(kernel).block(32).run(sums.data())) == "");
  for (int i = 0; i < 32; ++i) CHECK(sums[i] == (i < 16 ? 496 + 10000 : 496));
}

TEST_CASE("disjoint masks do not meet, and lanes outside the mask left no value") {
  std::vector<std::uint64_t> out(32);
  const auto kernel = [](void** parameters) {
    const bool even = me() % 2 == 0;
    unsigned long sum = 0;
    for (int round = 0; round < (even ? 3 : 7); ++round) {
      const unsigned long* const all = moegen_cpu_warp_exchange(even ? 0x55555555 : 0xAAAAAAAA, me(), 1);
      for (std::uint32_t i = even ? 0 : 1; i < 32; i += 2) sum += all[i];
      CHECK(all[even ? 1 : 0] == 0xA5A5A5A5A5A5A5A5u);
    }
    static_cast<std::uint64_t*>(parameters[0])[me()] = sum;
  };
  CHECK(text(HostLaunch(kernel).block(32).run(out.data())) == "");
  for (int i = 0; i < 32; ++i) CHECK(out[i] == (i % 2 == 0 ? 3 * 240 : 7 * 256));
}

TEST_CASE("lanes that the block does not have are not waited for") {
  std::uint32_t passed = 0;
  const auto kernel = [](void** parameters) {
    moegen_cpu_warp_sync(kAll, 1);
    add(parameter<std::uint32_t>(parameters), 1);
  };
  CHECK(text(HostLaunch(kernel).block(40).run(&passed)) == "");
  CHECK(passed == 40);
}

TEST_CASE("lanes of the mask that have ended, or do not exist, are not waited for and leave nothing") {
  std::vector<std::uint64_t> present(64);
  const auto late = [](void** parameters) {
    if (me() % 32 == 31) return;
    moegen_cpu_warp_sync(kAll, 2);
    present_of(parameters)[me()] = moegen_cpu_warp_exchange(kAll, 1, 1)[32];
  };
  CHECK(text(HostLaunch(late).block(64).run(present.data())) == "");
  for (std::uint32_t i = 0; i < 64; ++i) CHECK(present[i] == (i % 32 == 31 ? 0 : 0x7FFFFFFFu));
  present.assign(64, 0);
  const auto early = [](void** parameters) {
    if (me() < 4) return;
    present_of(parameters)[me()] = moegen_cpu_warp_exchange(kAll, 1, 1)[32];
  };
  CHECK(text(HostLaunch(early).block(40).run(present.data())) == "");
  for (std::uint32_t i = 4; i < 40; ++i) CHECK(present[i] == (i < 32 ? 0xFFFFFFF0u : 0xFFu));
}

TEST_CASE("a shuffle from a lane that left nothing") {
  CHECK(divergence([](void**) {
          if (me() == 0) return;
          if ((moegen_cpu_warp_exchange(kAll, 1, 1)[32] & 1) == 0 && me() == 5) moegen_cpu_warp_absent(kAll, 0, 2);
        }) == "warp shuffle, mask 0xffffffff, from lane 0, which has ended\n0/5 warp shuffle @k.cu:20 in f\n");
  CHECK(divergence(
            [](void**) {
              const std::uint64_t present = moegen_cpu_warp_exchange(kAll, 1, 1)[32];
              if (me() == 39 && (present >> 8 & 1) == 0) moegen_cpu_warp_absent(kAll, 8, 2);
            },
            40) ==
        "warp shuffle, mask 0xffffffff, from lane 8, which the block does not have\n"
        "0/39 warp shuffle @k.cu:20 in f\n");
  CHECK(divergence([](void**) {
          if (me() >= 16) return;
          if ((moegen_cpu_warp_exchange(0xFFFF, 1, 1)[32] >> 16 & 1) == 0 && me() == 3)
            moegen_cpu_warp_absent(0xFFFF, 16, 2);
        }) == "warp shuffle, mask 0xffff, from lane 16, which is not in the mask\n0/3 warp shuffle @k.cu:20 in f\n");
}

TEST_CASE("lanes that come with different masks") {
  CHECK(divergence([](void**) { moegen_cpu_warp_exchange(me() == 5 ? 0xFFFFFFF0u : kAll, 0, me() == 5 ? 2 : 1); }) ==
        "lanes of a warp meet with different masks, 0xfffffff0 and 0xffffffff\n"
        "0/5 warp exchange, mask 0xfffffff0 @k.cu:20 in f\n"
        "0/4 warp exchange, mask 0xffffffff @k.cu:10 in f\n");
  CHECK(divergence([](void**) {
          if (me() < 2) moegen_cpu_warp_exchange(me() == 0 ? 0x11u : 0x12u, 0, me() == 0 ? 1 : 2);
        }) ==
        "lanes of a warp meet with different masks, 0x12 and 0x11\n"
        "0/1 warp exchange, mask 0x12 @k.cu:20 in f\n"
        "0/0 warp exchange, mask 0x11 @k.cu:10 in f\n");
}

TEST_CASE("a lane outside its own mask") {
  CHECK(divergence([](void**) { moegen_cpu_warp_exchange(0xFFFE, 0, 3); }) ==
        "warp exchange, mask 0xfffe: lane 0 takes part and is not in it\n0/0 warp exchange @k.cu:30 in f\n");
}

TEST_CASE("lanes that meet in different operations") {
  const auto kernel = [](void**) {
    if (me() == 0) {
      moegen_cpu_warp_exchange(kAll, 0, 1);
    } else {
      moegen_cpu_warp_sync(kAll, 2);
    }
  };
  CHECK(divergence(kernel) ==
        "lanes of a warp meet in different operations\n"
        "0/1 warp sync, mask 0xffffffff @k.cu:20 in f\n"
        "0/0 warp exchange, mask 0xffffffff @k.cu:10 in f\n");
}

TEST_CASE("a shuffle in a branch that not all lanes take") {
  const auto kernel = [](void**) {
    if (me() % 32 < 3) moegen_cpu_warp_exchange(kAll, 0, 1);
    moegen_cpu_block_sync(0, 0, 2);
  };
  CHECK(divergence(kernel, 64) ==
        "no thread can run: 64 of 64 wait\n"
        "0/0 waits for warp exchange, mask 0xffffffff, lanes 3..31 missing; so do threads 1..2 @k.cu:10 in f\n"
        "0/3 waits for bar.sync 0 (58 of 64 arrived); so do threads 4..31, 35..63 @k.cu:20 in f\n"
        "0/32 waits for warp exchange, mask 0xffffffff, lanes 3..31 missing; so do threads 33..34 @k.cu:10 in f\n");
}
