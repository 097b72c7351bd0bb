// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cpu/buffers.hpp"
#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

struct Step {
  std::uint32_t operation;
  std::uint64_t operand, compare, before, after;
};

template <class Word>
struct Steps {
  Word word = 10;
  std::vector<Step> steps;
};

template <class Word>
void apply_steps(void** parameters) {
  auto& all = parameter<Steps<Word>>(parameters);
  for (const Step& step : all.steps) {
    CAPTURE(step.operation);
    CHECK(moegen_cpu_atomic(&all.word, sizeof(Word), step.operation, step.operand, step.compare, 0, 1) == step.before);
    CHECK(all.word == step.after);
  }
}

const std::vector<Step> kSteps = {
    {MOEGEN_CPU_ATOMIC_ADD, 5, 0, 10, 15},
    {MOEGEN_CPU_ATOMIC_MIN, 12, 0, 15, 12},
    {MOEGEN_CPU_ATOMIC_MIN, 13, 0, 12, 12},
    {MOEGEN_CPU_ATOMIC_MAX, 20, 0, 12, 20},
    {MOEGEN_CPU_ATOMIC_MAX, 3, 0, 20, 20},
    {MOEGEN_CPU_ATOMIC_AND, 0x1C, 0, 20, 20},
    {MOEGEN_CPU_ATOMIC_AND, 0x0C, 0, 20, 4},
    {MOEGEN_CPU_ATOMIC_OR, 3, 0, 4, 7},
    {MOEGEN_CPU_ATOMIC_XOR, 5, 0, 7, 2},
    {MOEGEN_CPU_ATOMIC_EXCHANGE, 40, 0, 2, 40},
    {MOEGEN_CPU_ATOMIC_COMPARE_EXCHANGE, 50, 41, 40, 40},
    {MOEGEN_CPU_ATOMIC_COMPARE_EXCHANGE, 50, 40, 40, 50},
    {MOEGEN_CPU_ATOMIC_STORE, 60, 0, 50, 60},
    {MOEGEN_CPU_ATOMIC_LOAD, 0, 0, 60, 60},
};

// A barrier of all blocks, as templates/core/grid.cuh makes it.
void grid_sync(std::uint32_t& arrived, std::uint32_t blocks) {
  moegen_cpu_block_sync(0, 0, 1);
  if (me() == 0) {
    add(arrived, 1, MOEGEN_CPU_ACQUIRE | MOEGEN_CPU_RELEASE | MOEGEN_CPU_SCOPE_DEVICE, 2);
    moegen_cpu_wait_at_least(&arrived, 4, blocks, MOEGEN_CPU_ACQUIRE | MOEGEN_CPU_SCOPE_DEVICE, 3);
  }
  moegen_cpu_block_sync(0, 0, 4);
}

struct Grid {
  std::uint32_t arrived = 0;
  std::vector<std::uint32_t> written = std::vector<std::uint32_t>(16);
  std::uint32_t wrong = 0;
};

void sync_grid(void** parameters) {
  auto& grid = parameter<Grid>(parameters);
  const std::uint32_t blocks = context().grid_dim.x;
  if (me() == 5) grid.written[my_block()] = my_block() + 1;
  grid_sync(grid.arrived, blocks);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (grid.written[i] != i + 1) add(grid.wrong, 1);
  }
}

}  // namespace

TEST_CASE("atomic operations give the old value and leave the new one") {
  Steps<std::uint32_t> four{.steps = kSteps};
  CHECK(text(HostLaunch(apply_steps<std::uint32_t>).run(&four)) == "");
  CHECK(four.word == 60);
  Steps<std::uint64_t> eight{.word = 10, .steps = kSteps};
  eight.steps.push_back({MOEGEN_CPU_ATOMIC_ADD, 1ull << 40, 0, 60, (1ull << 40) + 60});
  eight.steps.push_back({MOEGEN_CPU_ATOMIC_MAX, ~0ull, 0, (1ull << 40) + 60, ~0ull});
  CHECK(text(HostLaunch(apply_steps<std::uint64_t>).run(&eight)) == "");
  CHECK(eight.word == ~0ull);
}

TEST_CASE("blocks on several threads of the host add to one word") {
  std::uint32_t sum = 0;
  const auto kernel = [](void** parameters) {
    for (int i = 0; i < 100; ++i) add(parameter<std::uint32_t>(parameters), 1);
  };
  CHECK(text(HostLaunch(kernel).grid(200).block(32).threads(4).run(&sum)) == "");
  CHECK(sum == 200 * 32 * 100);
}

TEST_CASE("a cooperative grid meets") {
  for (std::uint64_t seed = 0; seed <= 3; ++seed) {
    Grid grid;
    HostLaunch launch(sync_grid);
    if (seed != 0) launch.chaos(seed);
    CHECK(text(launch.grid(16).block(64).cooperative().threads(4).run(&grid)) == "");
    CHECK(grid.arrived == 16);
    CHECK(grid.wrong == 0);
  }
}

TEST_CASE("a grid that is not cooperative waits for blocks that have not started") {
  Grid grid;
  cpu::Buffers buffers;
  const auto at = reinterpret_cast<std::uintptr_t>(&grid);
  REQUIRE_FALSE(buffers.add({at - 16, at + 16, "workspace"}).has_value());
  HostLaunch launch(sync_grid);
  launch.request.buffers = &buffers;
  const auto reports = launch.grid(16).block(64).run(&grid);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::deadlock);
  CHECK(
      text(reports) ==
      "no thread can run: 64 of 64 wait; the grid has 16 blocks, which run together only by luck: a block may wait for "
      "another only in a cooperative launch\n"
      "0/0 waits for the word 'workspace'+16 to become at least 16, is 1 @k.cu:30 in f\n"
      "0/1 waits for bar.sync 0 (63 of 64 arrived); so do threads 2..63 @k.cu:40 in f\n");
}

TEST_CASE("the same on several threads of the host: one report, and all stop") {
  for (int i = 0; i < 20; ++i) {
    Grid grid;
    const auto reports = HostLaunch(sync_grid).grid(16).block(64).threads(3).run(&grid);
    REQUIRE(!reports.empty());
    CHECK(reports[0].finding == CpuFinding::deadlock);
    CHECK(grid.arrived == 3);
  }
}

TEST_CASE("a block waits for an earlier one that another thread of the host runs") {
  struct Chain {
    std::vector<std::uint32_t> done = std::vector<std::uint32_t>(400);
  } chain;
  const auto kernel = [](void** parameters) {
    auto& all = parameter<Chain>(parameters).done;
    const std::uint32_t block = my_block();
    if (block > 0) moegen_cpu_wait_at_least(&all[block - 1], 4, 1, MOEGEN_CPU_ACQUIRE, 1);
    if (block % 2 == 0) {
      __atomic_store_n(&all[block], 1, __ATOMIC_SEQ_CST);  // plain for the model: seen when nothing else can run
    } else {
      moegen_cpu_atomic(&all[block], 4, MOEGEN_CPU_ATOMIC_STORE, 1, 0, MOEGEN_CPU_RELEASE, 2);
    }
  };
  CHECK(text(HostLaunch(kernel).grid(400).threads(4).run(&chain)) == "");
  for (const std::uint32_t done : chain.done) CHECK(done == 1);
}

TEST_CASE("a plain store is seen, too, once nothing else can run") {
  std::uint32_t words[2] = {};
  const auto kernel = [](void** parameters) {
    auto* const word = static_cast<std::uint32_t*>(parameters[0]);
    if (me() == 0) {
      moegen_cpu_wait_at_least(word, 4, 7, MOEGEN_CPU_ACQUIRE, 1);
      word[1] = *word;
    } else {
      *word = 9;
    }
  };
  CHECK(text(HostLaunch(kernel).block(2).run(words)) == "");
  CHECK(words[1] == 9);
}

TEST_CASE("threads that ask in a loop let the others run") {
  std::uint32_t word = 0;
  const auto kernel = [](void** parameters) {
    auto& value = parameter<std::uint32_t>(parameters);
    while (load(value) != me()) {
    }
    add(value, 1);
  };
  CHECK(text(HostLaunch(kernel).block(64).run(&word)) == "");
  CHECK(word == 64);
  std::uint32_t lock = 0;
  const auto spin_lock = [](void** parameters) {
    auto& held = parameter<std::uint32_t>(parameters);
    while (moegen_cpu_atomic(&held, 4, MOEGEN_CPU_ATOMIC_COMPARE_EXCHANGE, 1, 0, MOEGEN_CPU_ACQUIRE, 1) != 0) {
    }
    moegen_cpu_warp_sync(1u << me(), 2);
    moegen_cpu_atomic(&held, 4, MOEGEN_CPU_ATOMIC_STORE, 0, 0, MOEGEN_CPU_RELEASE, 3);
  };
  CHECK(text(HostLaunch(spin_lock).block(32).chaos(7).run(&lock)) == "");
  CHECK(lock == 0);
}

TEST_CASE("a misaligned word") {
  alignas(8) char bytes[16] = {};
  const auto kernel = [](void** parameters) {
    moegen_cpu_atomic(static_cast<char*>(parameters[0]) + 4, 8, MOEGEN_CPU_ATOMIC_ADD, 1, 0, 0, 3);
  };
  const auto reports = HostLaunch(kernel).run(bytes);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::misaligned);
  CHECK(reports[0].what == fmt::format("{:#x} is no multiple of 8", reinterpret_cast<std::uintptr_t>(bytes) + 4));
  CHECK(reports[0].parties[0].place == "k.cu:30 in f");
}

TEST_CASE("the clock goes on, and does not keep others from running") {
  std::uint32_t word = 0;
  const auto kernel = [](void** parameters) {
    auto& done = parameter<std::uint32_t>(parameters);
    if (me() == 1) {
      done = 1;
      return;
    }
    const unsigned long begin = moegen_cpu_globaltimer();
    while (*static_cast<volatile std::uint32_t*>(&done) == 0) CHECK(moegen_cpu_globaltimer() >= begin);
  };
  CHECK(text(HostLaunch(kernel).block(2).run(&word)) == "");
}
