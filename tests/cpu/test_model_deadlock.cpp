// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "cpu/model/deadlock.hpp"
#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

std::string deadlock(HostLaunch& launch, void* parameter = nullptr) {
  const auto reports = launch.run(parameter);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::deadlock);
  return text(reports);
}

}  // namespace

TEST_CASE("threads at different barriers") {
  HostLaunch launch([](void**) {
    if (me() < 32) {
      moegen_cpu_block_sync(1, 96, 1);
    } else if (me() < 64) {
      moegen_cpu_block_sync(2, 64, 2);
    } else {
      moegen_cpu_block_arrive(1, 96, 3);
    }
  });
  CHECK(deadlock(launch.block(96)) ==
        "no thread can run: 64 of 96 wait, 32 have ended\n"
        "0/0 waits for bar.sync 1 (64 of 96 arrived); so do threads 1..31 @k.cu:10 in f\n"
        "0/32 waits for bar.sync 2 (32 of 64 arrived); so do threads 33..63 @k.cu:20 in f\n");
}

TEST_CASE("one thread alone") {
  HostLaunch launch([](void**) {
    if (me() == 5) moegen_cpu_block_sync(1, 32, 1);
  });
  CHECK(deadlock(launch.grid(3).block(32)) ==
        "no thread can run: 1 of 32 waits, 31 have ended\n0/5 waits for bar.sync 1 (1 of 32 arrived) @k.cu:10 in f\n");
}

TEST_CASE("the same barrier at different places") {
  HostLaunch launch([](void**) {
    if (me() < 32) moegen_cpu_block_sync(1, 64, me() % 2 == 0 ? 1 : 2);
  });
  CHECK(deadlock(launch.block(64)) ==
        "no thread can run: 32 of 64 wait, 32 have ended\n"
        "0/0 waits for bar.sync 1 (32 of 64 arrived); so do threads 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, "
        "28, 30 "
        "@k.cu:10 in f\n"
        "0/1 waits for bar.sync 1 (32 of 64 arrived); so do threads 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, "
        "29, 31 "
        "@k.cu:20 in f\n");
}

TEST_CASE("an object that another part of the model waits for") {
  HostLaunch launch([](void**) {
    cpu::WaitList& list = cpu::Scheduler::current().running().block->barriers[7].waiters;
    cpu::Scheduler::current().park(list, {.operation = "mbarrier.try_wait",
                                          .object = 0x20 + me() / 2 * 8,
                                          .detail = 1,
                                          .site = 3,
                                          .describe = [](const cpu::Thread& thread) {
                                            return fmt::format("mbarrier at shared+{:#x}, parity {}",
                                                               thread.wait.object, thread.wait.detail);
                                          }});
  });
  CHECK(deadlock(launch.block(4)) ==
        "no thread can run: 4 of 4 wait\n"
        "0/0 waits for mbarrier at shared+0x20, parity 1; so does thread 1 @k.cu:30 in f\n"
        "0/2 waits for mbarrier at shared+0x28, parity 1; so does thread 3 @k.cu:30 in f\n");
}

TEST_CASE("all blocks that run together are told, each once") {
  HostLaunch launch([](void**) { moegen_cpu_wait_at_least(shared<char>(), 4, 0xFFFFFFFF, 0, 2); });
  CHECK(
      deadlock(launch.grid(2).block(2).cooperative().shared(16)) ==
      "no thread can run: 4 of 4 wait\n"
      "0/0 waits for the word shared+0x0 to become at least 4294967295, is 2779096485; so does thread 1 @k.cu:20 in f\n"
      "1/0 waits for the word shared+0x0 to become at least 4294967295, is 2779096485; so does thread 1 @k.cu:20 in "
      "f\n");
}

TEST_CASE("lanes that wait for each other's mbarrier are a deadlock and no divergence") {
  HostLaunch launch([](void**) {
    if (me() == 0) moegen_cpu_wait_at_least(shared<char>(), 4, 0xFFFFFFFF, 0, 2);
    moegen_cpu_warp_sync(0xFFFFFFFF, 3);
  });
  CHECK(deadlock(launch.block(32).shared(16)) ==
        "no thread can run: 32 of 32 wait\n"
        "0/0 waits for the word shared+0x0 to become at least 4294967295, is 2779096485 @k.cu:20 in f\n"
        "0/1 waits for warp sync, mask 0xffffffff, lane 0 missing; so do threads 2..31 @k.cu:30 in f\n");
}

TEST_CASE("numbers as ranges") {
  CHECK(cpu::ranges(std::vector<std::uint32_t>{}) == "");
  CHECK(cpu::ranges(std::vector{4u}) == "4");
  CHECK(cpu::ranges(std::vector{4u, 5u}) == "4..5");
  CHECK(cpu::ranges(std::vector{0u, 2u, 3u, 4u, 9u}) == "0, 2..4, 9");
}

TEST_CASE("a deadlock of more groups than are told says so") {
  HostLaunch launch([](void**) {
    if (me() != 0) moegen_cpu_block_sync(1, 32, 1);
  });
  launch.request.num_sms = 70;
  const auto reports = launch.grid(70).block(32).cooperative().run();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].parties.size() == 64);
  CHECK(reports[0].what == "no thread can run: 2170 of 2240 wait, 70 have ended; and 6 more groups");
}
