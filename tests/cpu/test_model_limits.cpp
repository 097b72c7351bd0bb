// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

void nothing(void**) { moegen_cpu_trap(1); }

/// Why the launch is refused; the kernel must not have run.
std::string refused(HostLaunch& launch) {
  const auto reports = launch.run();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::misuse);
  CHECK(reports[0].parties.empty());
  const std::string head = "launch of 'kernel': ";
  REQUIRE(reports[0].what.starts_with(head));
  return reports[0].what.substr(head.size());
}

std::string refused(void (*change)(cpu::LaunchRequest&)) {
  HostLaunch launch(nothing);
  change(launch.request);
  return refused(launch);
}

}  // namespace

TEST_CASE("what a launch may not ask for") {
  using R = cpu::LaunchRequest&;
  CHECK(refused([](R r) { r.grid[0] = 0; }) == "a grid of 0 x 1 x 1; each size is 1 to 2147483647, 65535, 65535");
  CHECK(refused([](R r) { r.grid[1] = 65536; }) ==
        "a grid of 1 x 65536 x 1; each size is 1 to 2147483647, 65535, 65535");
  CHECK(refused([](R r) { r.block[1] = 0; }) == "a block of 1 x 0 x 1; each size is 1 to 1024, 1024, 64");
  CHECK(refused([](R r) { r.block[2] = 65; }) == "a block of 1 x 1 x 65; each size is 1 to 1024, 1024, 64");
  CHECK(refused([](R r) { r.block[0] = 64, r.block[1] = 32; }) == "2048 threads a block; at most 1024");
  CHECK(refused([](R r) { r.block[0] = 288, r.max_threads = 256; }) ==
        "288 threads a block; its launch bounds say at most 256");
  CHECK(refused([](R r) { r.dynamic_shared_bytes = 232449; }) ==
        "232449 bytes of shared memory, 232449 of them dynamic; sm_90a has 232448 a block");
  CHECK(refused([](R r) { r.cluster = 0; }) == "a cluster of 0 blocks; 1 stands for none");
  CHECK(refused([](R r) { r.cluster = r.grid[0] = 32; }) == "a cluster of 32 blocks; sm_90a has at most 16");
  CHECK(refused([](R r) { r.cluster = 4, r.grid[0] = 6; }) ==
        "a grid of 6 blocks along x; its clusters of 4 do not divide that");
  CHECK(refused([](R r) { r.cluster = r.grid[0] = 2, r.arch = find_arch("sm_80"); }) ==
        "a cluster of 2 blocks; sm_80 has no clusters");
  CHECK(refused([](R r) { r.cooperative = true, r.grid[0] = 17; }) ==
        "a cooperative grid of 17 blocks; 16 can be resident together");
  CHECK(refused([](R r) { r.cooperative = true, r.grid[0] = 132, r.block[0] = 1024, r.num_sms = 132; }) ==
        "135168 threads that run together; the CPU target holds at most 24576");
  CHECK(refused([](R r) { r.grid[0] = 2097153, r.block[0] = 1024, r.options.check = true; }) ==
        "2097153 blocks of 1024 threads; the checks can tell 2147483648 threads of a launch apart");
  CHECK(refused([](R r) { r.entry = "other", r.label = "kernel"; }) == "the program has no entry 'other'");
}

TEST_CASE("the tighter of the plan's and the text's launch bounds holds") {
  HostLaunch launch([](void**) {});
  launch.request.max_threads = 256;
  launch.program.entries[0].max_threads = 128;
  CHECK(text(launch.block(128).run()) == "");
  CHECK(refused(launch.block(160)) == "160 threads a block; its launch bounds say at most 128");
  launch.program.entries[0].max_threads = 512;
  CHECK(refused(launch.block(288)) == "288 threads a block; its launch bounds say at most 256");
  launch.request.max_threads = 0;
  CHECK(text(launch.block(512).run()) == "");
  CHECK(refused(launch.block(513)) == "513 threads a block; its launch bounds say at most 512");
}

TEST_CASE("static and dynamic shared memory together") {
  HostLaunch launch(nothing);
  launch.program.entries[0].static_shared_bytes = 1000;
  launch.program.entries[0].dynamic_shared_offset = 1024;
  CHECK(refused(launch.shared(232448)) ==
        "233472 bytes of shared memory, 232448 of them dynamic; sm_90a has 232448 a block");
  launch.program.entries[0].static_shared_bytes = 49153;
  CHECK(refused(launch.shared(0)) == "49153 bytes of static shared memory; at most 49152");
}

TEST_CASE("what a launch may just ask for") {
  const auto kernel = [](void** parameters) { add(parameter<std::uint32_t>(parameters), 1); };
  std::uint32_t count = 0;
  HostLaunch launch(kernel);
  launch.request.max_threads = 1024;
  CHECK(text(launch.grid(16).block(1024).shared(232448).cluster(16).run(&count)) == "");
  CHECK(count == 16 * 1024);
  HostLaunch together(kernel);
  CHECK(text(together.grid(16).block(1024).cooperative().run(&count)) == "");
  CHECK(count == 2 * 16 * 1024);
}

TEST_CASE("the dynamic part of shared memory begins behind the static one") {
  std::uint32_t seen = 0;
  const auto kernel = [](void** parameters) {
    parameter<std::uint32_t>(parameters) = cpu::Scheduler::current().running().block->shared_bytes;
  };
  HostLaunch launch(kernel);
  launch.program.entries[0].static_shared_bytes = 100;
  launch.program.entries[0].dynamic_shared_offset = 112;
  CHECK(text(launch.shared(50).run(&seen)) == "");
  CHECK(seen == 162);
  CHECK(text(launch.shared(0).run(&seen)) == "");
  CHECK(seen == 100);
}

TEST_CASE("findings past the most are counted, and the one that ends the launch is kept") {
  const auto kernel = [](void** parameters) {
    for (unsigned site = 1; site <= 5; ++site) {
      cpu::Scheduler::current().report(CpuFinding::misuse, fmt::format("finding {}", site), site, "finds");
    }
    if (parameter<bool>(parameters)) moegen_cpu_trap(6);
  };
  for (const bool traps : {false, true}) {
    bool parameter = traps;
    for (const std::size_t most : {0u, 1u, 3u, 9u}) {
      HostLaunch launch(kernel);
      launch.request.options.max_reports = most;
      const cpu::LaunchOutcome outcome = launch.outcome(&parameter);
      const std::size_t kept = std::clamp<std::size_t>(most, 1, 5);
      REQUIRE(outcome.reports.size() == kept + (traps ? 1 : 0));
      CHECK(outcome.reports[0].what.starts_with("finding 1"));
      std::string last = traps ? "the kernel trapped" : fmt::format("finding {}", kept);
      if (kept == 1) last += "; and 4 more findings, which max_reports leaves out";
      if (kept == 3) last += "; and 2 more findings, which max_reports leaves out";
      CHECK(outcome.reports.back().what == last);
    }
  }
}
