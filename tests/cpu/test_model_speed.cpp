// SPDX-License-Identifier: Apache-2.0
// What the model costs; printed, not asserted.
#include <doctest/doctest.h>

#include <ctime>
#include <vector>

#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

constexpr int kRounds = 10;

/// Nanoseconds of processor time of a launch for each of `count` operations: others may use the machine, too.
double cost(HostLaunch& launch, double count, void* parameter = nullptr) {
  const std::clock_t begin = std::clock();
  CHECK(text(launch.run(parameter)) == "");
  return static_cast<double>(std::clock() - begin) * (1e9 / CLOCKS_PER_SEC) / count;
}

}  // namespace

TEST_CASE("barriers of a block") {
  HostLaunch launch([](void**) {
    for (int i = 0; i < kRounds; ++i) moegen_cpu_block_sync(0, 0, 1);
  });
  launch.grid(400).block(256);
  for (const unsigned hosts : {1u, 2u}) {
    const double nanoseconds = cost(launch.threads(hosts), 400.0 * 256 * kRounds);
    MESSAGE(nanoseconds, " ns a thread and barrier, host threads: ", hosts);
  }
}

TEST_CASE("exchanges of a warp") {
  HostLaunch launch([](void**) {
    for (int i = 0; i < kRounds; ++i) moegen_cpu_warp_exchange(0xFFFFFFFF, 1, 1);
  });
  const double nanoseconds = cost(launch.grid(400).block(256), 400.0 * 256 * kRounds);
  MESSAGE(nanoseconds, " ns a lane and exchange");
}

TEST_CASE("threads that never wait") {
  HostLaunch launch([](void**) {});
  MESSAGE(cost(launch.grid(1000).block(256), 1000.0 * 256), " ns a thread");
}

TEST_CASE("atomic additions") {
  std::uint32_t sum = 0;
  HostLaunch launch([](void** parameters) {
    for (int i = 0; i < kRounds; ++i) add(parameter<std::uint32_t>(parameters), 1);
  });
  MESSAGE(cost(launch.grid(100).block(256), 100.0 * 256 * kRounds, &sum), " ns an addition");
  CHECK(sum == 100 * 256 * kRounds);
}

TEST_CASE("a launch of one small block") {
  HostLaunch launch([](void**) { moegen_cpu_block_sync(0, 0, 1); });
  launch.block(32);
  double nanoseconds = 0;
  for (int i = 0; i < 1000; ++i) nanoseconds += cost(launch, 1000);
  MESSAGE(nanoseconds, " ns a launch");
}
