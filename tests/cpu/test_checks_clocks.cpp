// SPDX-License-Identifier: Apache-2.0
// Vector clocks: who knows what after which synchronisation, and that clocks stay shared.
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/check/actors.hpp"
#include "cpu/check/clock.hpp"

namespace {

using namespace moegen::cpu;

std::vector<std::uint32_t> all_of(std::uint32_t threads) {
  std::vector<std::uint32_t> indices(threads);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

/// Two blocks of 64 threads, and an object to synchronise on.
struct Fixture {
  Fixture() {
    actors.begin_block(0);
    actors.begin_block(1);
  }
  /// The present of a thread, as an access would keep it.
  Epoch now(std::uint32_t block, std::uint32_t thread) { return actors.thread(block, thread).now; }
  bool knows(std::uint32_t block, std::uint32_t thread, Epoch epoch) {
    return actors.ordered(actors.thread(block, thread), epoch);
  }

  Actors actors{64};
  int object = 0;
};

}  // namespace

TEST_CASE("clocks merge entry by entry and keep what nothing was added to") {
  Clocks clocks;
  ClockRef a, b;
  clocks.add(a, 0, 3, 7);
  clocks.add(b, 0, 3, 5);
  CHECK(clocks.merge(a, b) == a);
  CHECK(clocks.merge(b, a) == a);
  clocks.add(b, 2, 1, 9);
  const ClockRef both = clocks.merge(a, b);
  CHECK(both->time_of(0, 3) == 7);
  CHECK(both->time_of(2, 1) == 9);
  CHECK(both->time_of(2, 0) == 0);
  CHECK(both->time_of(1, 1) == 0);
  CHECK(clocks.merge(a, b) == both);
  CHECK(clocks.merge(both, b) == both);
  CHECK(clocks.merge({}, b) == b);
  CHECK(clocks.merge(b, {}) == b);
  CHECK_FALSE(static_cast<bool>(clocks.merge({}, {})));
}

TEST_CASE("a clock that others have does not change under them") {
  Clocks clocks;
  ClockRef mine;
  clocks.add(mine, 0, 0, 1);
  const ClockRef theirs = mine;
  const std::uint64_t serial = theirs->serial;
  clocks.add(mine, 0, 0, 2);
  CHECK(theirs->time_of(0, 0) == 1);
  CHECK(theirs->serial == serial);
  CHECK(mine->time_of(0, 0) == 2);
  CHECK(mine->serial != serial);
}

TEST_CASE_FIXTURE(Fixture, "threads know nothing of each other at first") {
  CHECK(knows(0, 0, now(0, 0)));
  CHECK(knows(0, 0, Epoch{}));
  CHECK_FALSE(knows(0, 0, now(0, 1)));
  CHECK_FALSE(knows(0, 0, now(1, 0)));
  CHECK_FALSE(knows(1, 0, now(0, 0)));
}

TEST_CASE_FIXTURE(Fixture, "a barrier orders what came before it, and nothing after") {
  const Epoch before = now(0, 5);
  actors.join(0, all_of(64));
  const Epoch after = now(0, 5);
  for (std::uint32_t i = 0; i < 64; ++i) CHECK(knows(0, i, before));
  CHECK_FALSE(knows(0, 6, after));
  CHECK_FALSE(knows(1, 6, before));
  CHECK(actors.thread(0, 0).known == actors.thread(0, 63).known);
}

TEST_CASE_FIXTURE(Fixture, "a barrier of a warp orders its lanes alone") {
  const std::vector<std::uint32_t> warp = all_of(32);
  const Epoch inside = now(0, 3), outside = now(0, 40);
  actors.join(0, warp);
  CHECK(knows(0, 31, inside));
  CHECK_FALSE(knows(0, 40, inside));
  CHECK_FALSE(knows(0, 31, outside));
  actors.join(0, all_of(64));
  CHECK(knows(0, 40, inside));
  CHECK(knows(0, 31, outside));
}

TEST_CASE_FIXTURE(Fixture, "what was released is known to those who acquire") {
  const Epoch first = now(0, 1);
  actors.release(actors.thread(0, 1), &object);
  const Epoch later = now(0, 1);
  CHECK_FALSE(knows(0, 2, first));
  actors.acquire(actors.thread(0, 2), &object);
  CHECK(knows(0, 2, first));
  CHECK_FALSE(knows(0, 2, later));
  actors.forget(&object);
  actors.acquire(actors.thread(0, 3), &object);
  CHECK_FALSE(knows(0, 3, first));
}

TEST_CASE_FIXTURE(Fixture, "order carries over blocks and over several steps") {
  const Epoch written = now(0, 7);
  actors.join(0, all_of(64));
  actors.release(actors.thread(0, 0), &object);
  actors.acquire(actors.thread(1, 0), &object);
  CHECK(knows(1, 0, written));
  CHECK_FALSE(knows(1, 1, written));
  actors.join(1, all_of(64));
  CHECK(knows(1, 63, written));
  actors.end_block(0);
  CHECK(knows(1, 63, written));
  const Identity who = actors.identify(written);
  CHECK(who.block == 0);
  CHECK(who.thread == 7);
  CHECK(who.operation == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "many releases of one phase are one another's equals") {
  std::vector<Epoch> before;
  for (std::uint32_t i = 0; i < 64; ++i) {
    before.push_back(now(0, i));
    actors.release(actors.thread(0, i), &object);
  }
  for (std::uint32_t i = 0; i < 64; ++i) actors.acquire(actors.thread(0, i), &object);
  for (std::uint32_t i = 0; i < 64; ++i)
    for (const Epoch& epoch : before) CHECK(knows(0, i, epoch));
  CHECK(actors.thread(0, 0).known == actors.thread(0, 63).known);
}

TEST_CASE_FIXTURE(Fixture, "a fence releases through later relaxed stores what came before it") {
  Timeline& writer = actors.thread(0, 0);
  Timeline& reader = actors.thread(1, 0);
  const Epoch before = now(0, 0);
  actors.fence(writer);
  const Epoch after = now(0, 0);
  actors.relaxed_store(writer, &object, false);
  actors.relaxed_load(reader, &object);
  CHECK_FALSE(knows(1, 0, before));
  actors.fence(reader);
  CHECK(knows(1, 0, before));
  CHECK_FALSE(knows(1, 0, after));
}

TEST_CASE_FIXTURE(Fixture, "a relaxed store without a fence ends what was released") {
  const Epoch before = now(0, 0);
  actors.release(actors.thread(0, 0), &object);
  actors.relaxed_store(actors.thread(0, 1), &object, true);  // reads what was there: carries on
  actors.acquire(actors.thread(1, 0), &object);
  CHECK(knows(1, 0, before));
  actors.relaxed_store(actors.thread(0, 1), &object, false);
  actors.acquire(actors.thread(1, 1), &object);
  CHECK_FALSE(knows(1, 1, before));
}

TEST_CASE_FIXTURE(Fixture, "an operation begins after its issuers and is known to who waits for it") {
  const Epoch before = now(0, 2);
  const std::vector<std::uint32_t> issuers = {2, 3};
  const std::uint32_t index = actors.fork(0, issuers, "tensor copy", 17);
  Timeline& copy = actors.operation(0, index);
  CHECK(index == 64);
  CHECK(copy.site == 17);
  CHECK(actors.ordered(copy, before));
  CHECK_FALSE(actors.ordered(copy, now(0, 2)));
  CHECK_FALSE(actors.ordered(copy, now(0, 4)));
  const Epoch copied = copy.now;
  CHECK_FALSE(knows(0, 2, copied));
  actors.release(copy, &object);
  actors.acquire(actors.thread(0, 9), &object);
  CHECK(knows(0, 9, copied));
  CHECK(knows(0, 9, before));
  CHECK_FALSE(knows(0, 10, copied));
  CHECK(actors.identify(copied).thread == 2);
  CHECK(std::string(actors.identify(copied).operation) == "tensor copy");
}

TEST_CASE_FIXTURE(Fixture, "an operation's number is used again only by one that comes after it") {
  const std::vector<std::uint32_t> issuer = {0};
  const auto run = [&](std::uint32_t thread, const char* what) {
    const std::vector<std::uint32_t> by = {thread};
    const std::uint32_t index = actors.fork(0, by, what, 0);
    Timeline& copy = actors.operation(0, index);
    copy.used = copy.now.time;
    const Epoch epoch = copy.now;
    actors.release(copy, &object);
    actors.end(actors.operation(0, index));
    return std::pair(index, epoch);
  };
  const auto [first, first_epoch] = run(0, "first");
  const auto [second, second_epoch] = run(0, "second");
  CHECK(second != first);  // nobody has waited for the first
  CHECK_FALSE(actors.ordered(actors.operation(0, second), first_epoch));
  actors.acquire(actors.thread(0, 1), &object);
  const auto [third, third_epoch] = run(1, "third");
  CHECK(third == first);
  CHECK(std::string(actors.identify(first_epoch).operation) == "first");
  CHECK(std::string(actors.identify(second_epoch).operation) == "second");
  CHECK(std::string(actors.identify(third_epoch).operation) == "third");
}
