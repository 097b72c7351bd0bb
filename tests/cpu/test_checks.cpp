// SPDX-License-Identifier: Apache-2.0
// The checks of a launch, driven by hand: each finding with its text, and what must not be one.
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/check/launch_checker.hpp"

namespace {

using namespace moegen;
using namespace moegen::cpu;

struct Abandoned {};

class Recorder final : public Findings {
 public:
  explicit Recorder(std::vector<CpuReport>& found) : found_(found) {}
  void report(CpuReport report) override { found_.push_back(std::move(report)); }
  [[noreturn]] void fail(CpuReport report) override {
    found_.push_back(std::move(report));
    throw Abandoned{};
  }
  std::string place(Site site) const override { return "line " + std::to_string(site); }

 private:
  std::vector<CpuReport>& found_;
};

constexpr std::uint32_t kThreads = 64, kSharedBytes = 4096, kBlocks = 4;

/// Four blocks of 64 threads in clusters of two, and two buffers.
struct Launch {
  Launch() {
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      Block& block = blocks[i];
      block.index = i;
      block.num_threads = kThreads;
      block.shared = reinterpret_cast<char*>(&shared[i]);
      block.shared_bytes = kSharedBytes;
      threads[i].resize(kThreads);
      for (std::uint32_t j = 0; j < kThreads; ++j) {
        threads[i][j].block = &block;
        threads[i][j].index = j;
      }
      checker->block_started(block);
    }
  }

  static const Buffers* known(std::vector<Buffer> ranges) {
    static thread_local std::unique_ptr<Buffers> buffers;
    buffers = std::make_unique<Buffers>();
    for (Buffer& range : ranges) buffers->add(std::move(range));
    return buffers.get();
  }
  static std::uintptr_t at(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

  /// What kind of access, by which thread, with the site as its number.
  void touch(std::uint32_t block, std::uint32_t thread, const void* address, std::uint32_t bytes, Access kind,
             Site site = 1, Scope scope = Scope::block) {
    checker->access(threads[block][thread], address, bytes, bytes, kind, scope, site);
  }
  void read(std::uint32_t thread, const void* address, std::uint32_t bytes = 4, Site site = 1) {
    touch(0, thread, address, bytes, Access::read, site);
  }
  void write(std::uint32_t thread, const void* address, std::uint32_t bytes = 4, Site site = 2) {
    touch(0, thread, address, bytes, Access::write, site);
  }
  void sync(std::uint32_t block = 0) {
    std::vector<std::uint32_t> all(kThreads);
    std::iota(all.begin(), all.end(), 0);
    checker->join(blocks[block], all);
  }
  /// The thread has waited for the operation.
  void complete(Thread& thread, const Actor& actor) {
    checker->release(actor, &thread);
    checker->acquire(thread, &thread);
  }
  /// The text of the only finding, forgotten afterwards; "" if there is none.
  std::string finding() {
    REQUIRE(found.size() <= 1);
    const std::string text = found.empty() ? "" : found[0].text();
    found.clear();
    return text;
  }
  std::string failure(auto&& action) {
    CHECK_THROWS_AS(action(), Abandoned);
    return finding();
  }

  struct alignas(1024) Shared {
    char bytes[kSharedBytes];
  };
  alignas(256) char input[1024] = {};
  char gap[256] = {};
  int constant = 0;
  alignas(256) char output[1024] = {};  // of which the checker is told of 1000
  Shared shared[kBlocks];
  Block blocks[kBlocks];
  std::vector<Thread> threads[kBlocks];
  std::vector<CpuReport> found;
  std::unique_ptr<LaunchChecker> checker = std::make_unique<LaunchChecker>(
      CheckedLaunch{
          .threads_per_block = kThreads,
          .cluster_size = 2,
          .buffers = known({{at(input), at(input) + 1024, "input"}, {at(output), at(output) + 1000, "output"}}),
          .constants = {{&constant, sizeof constant}}},
      std::make_unique<Recorder>(found));
};

}  // namespace

TEST_CASE_FIXTURE(Launch, "memory that is known may be touched") {
  write(0, input);
  read(0, input + 1020);
  write(1, output + 992, 8);
  write(2, shared[0].bytes + 4092);
  read(2, &constant);
  CHECK(finding().empty());
}

TEST_CASE_FIXTURE(Launch, "accesses out of bounds are told with the nearest buffer") {
  CHECK(failure([&] { write(3, output + 1000); }) ==
        "out of bounds: write of 4 bytes, right past the end of 'output' (1000 bytes)\n"
        "  block 0, thread 3: write of 4 bytes\n    at line 2\n");
  CHECK(failure([&] {
          read(3, output + 1008, 8);
        }).starts_with("out of bounds: read of 8 bytes, 8 bytes past the end of 'output' (1000 bytes)\n"));
  CHECK(failure([&] {
          read(3, reinterpret_cast<const char*>(at(input) - 1), 1);
        }).starts_with("out of bounds: read of 1 byte, 1 byte before 'input' (1024 bytes)\n"));
  CHECK(failure([&] { read(3, output + 992, 16); })
            .starts_with("out of bounds: read of 16 bytes at 'output'+992 (element 62 of 16 bytes), of which 8 are "
                         "past the end of "));
  CHECK(failure([&] {
          read(3, reinterpret_cast<void*>(1 << 30));
        }).starts_with("out of bounds: read of 4 bytes, at 0x40000000, which is near no known memory\n"));
  CHECK(failure([&] {
          write(3, &constant);
        }).starts_with("out of bounds: write of 4 bytes, in a constant of the kernel\n"));
}

TEST_CASE_FIXTURE(Launch, "shared memory ends where the block's does, and clusters share") {
  CHECK(failure([&] { touch(1, 0, shared[1].bytes + 4096, 4, Access::write); }).starts_with("out of bounds: "));
  touch(0, 0, shared[1].bytes, 4, Access::write);
  CHECK(finding().empty());
  CHECK(failure([&] { touch(0, 5, shared[3].bytes + 8, 4, Access::read); }) ==
        "out of bounds: read of 4 bytes at shared+0x8 of block 3, which is in another cluster\n"
        "  block 0, thread 5: read of 4 bytes\n    at line 1\n");
}

TEST_CASE_FIXTURE(Launch, "a stack is its thread's own") {
  struct alignas(MOEGEN_CPU_STACK_BYTES) Stack {
    char bytes[MOEGEN_CPU_STACK_BYTES];
  };
  const auto stacks = std::make_unique<Stack[]>(2);
  for (int i = 0; i < 2; ++i) {
    blocks[0].threads.push_back(&threads[0][i]);
    threads[0][i].context = MOEGEN_CPU_CONTEXT_AT(&stacks[i]);
  }
  write(0, &stacks[0].bytes[40]);
  CHECK(finding().empty());
  CHECK(failure([&] {
          write(0, &stacks[1].bytes[40]);
        }).starts_with("out of bounds: write of 4 bytes, on the stack of thread 1\n"));
}

TEST_CASE_FIXTURE(Launch, "misaligned accesses are told") {
  CHECK(failure([&] {
          read(1, input + 4, 16);
        }).starts_with("misaligned access: read of 16 bytes at 'input'+4, which is no multiple of 16\n"));
  CHECK(failure([&] {
          read(1, shared[0].bytes + 2);
        }).starts_with("misaligned access: read of 4 bytes at shared+0x2, which is no multiple of 4\n"));
}

TEST_CASE_FIXTURE(Launch, "shared memory that nothing wrote is not read") {
  write(0, shared[0].bytes, 4);
  read(0, shared[0].bytes, 4);
  CHECK(finding().empty());
  read(0, shared[0].bytes, 8, 9);
  CHECK(finding() ==
        "unwritten shared memory: read of 8 bytes at shared+0x0, which nothing has written from shared+0x4 on\n"
        "  block 0, thread 0: read of 8 bytes\n    at line 9\n");
  touch(0, 0, shared[0].bytes + 64, 4, Access::atomic);
  CHECK(
      finding().starts_with("unwritten shared memory: atomic operation on 4 bytes, block scope at shared+0x40, which"));
  touch(0, 0, shared[0].bytes + 68, 4, Access::atomic_store);
  touch(0, 0, shared[0].bytes + 68, 4, Access::atomic);
  CHECK(finding().empty());
  write(0, shared[0].bytes + 81, 1);
  read(0, shared[0].bytes + 81, 1);
  CHECK(finding().empty());
  read(0, shared[0].bytes + 82, 1);
  CHECK(finding().starts_with("unwritten shared memory: read of 1 byte at shared+0x52"));
}

TEST_CASE_FIXTURE(Launch, "a new block's shared memory is unwritten, and nobody's yet") {
  write(0, shared[0].bytes);
  checker->block_ended(blocks[0]);
  checker->block_started(blocks[0]);
  write(1, shared[0].bytes);
  CHECK(finding().empty());
  read(1, shared[0].bytes + 4);
  CHECK(finding().starts_with("unwritten shared memory"));
}

TEST_CASE_FIXTURE(Launch, "two writes, or a write and a read, without order are a race") {
  write(3, shared[0].bytes + 16, 4, 5);
  read(40, shared[0].bytes + 16, 4, 6);
  CHECK(finding() ==
        "race in shared memory: shared+0x10: read of 4 bytes, and an earlier write of 4 bytes, in no order\n"
        "  block 0, thread 40: read of 4 bytes\n    at line 6\n"
        "  earlier, block 0, thread 3: write of 4 bytes\n    at line 5\n");
  read(2, input, 4);
  write(1, input, 4);
  CHECK(
      finding().starts_with("race in global memory: 'input'+0 (element 0 of 4 bytes): write of 4 bytes, and an earlier "
                            "read of 4 bytes, in no order\n"));
  touch(0, 2, output + 8, 8, Access::write, 7);
  touch(1, 3, output + 12, 4, Access::write, 8);
  CHECK(finding() ==
        "race in global memory: 'output'+12 (element 3 of 4 bytes): write of 4 bytes, and an earlier write of 8 bytes, "
        "in no order\n"
        "  block 1, thread 3: write of 4 bytes\n    at line 8\n"
        "  earlier, block 0, thread 2: write of 8 bytes\n    at line 7\n");
}

TEST_CASE_FIXTURE(Launch, "a barrier between them is order") {
  for (std::uint32_t i = 0; i < kThreads; ++i) write(i, shared[0].bytes + std::size_t{4} * i);
  sync();
  for (std::uint32_t i = 0; i < kThreads; ++i)
    for (std::uint32_t j = 0; j < kThreads; ++j) read(i, shared[0].bytes + std::size_t{4} * j);
  sync();
  for (std::uint32_t i = 0; i < kThreads; ++i) write(i, shared[0].bytes + std::size_t{4} * (kThreads - 1 - i));
  CHECK(finding().empty());
}

TEST_CASE_FIXTURE(Launch, "every reader of many is remembered") {
  for (std::uint32_t racing : {0u, 17u, 63u}) {
    const char* const word = shared[0].bytes + std::size_t{4} * racing;
    write(1, word);
    sync();
    for (std::uint32_t i = 0; i < kThreads; ++i) read(i, word, 4, 100 + i);
    std::vector<std::uint32_t> others;
    for (std::uint32_t i = 0; i < kThreads; ++i)
      if (i != racing) others.push_back(i);
    checker->join(blocks[0], others);
    CHECK(finding().empty());
    write(others.front(), word, 4, 2);
    CHECK(finding().ends_with("earlier, block 0, thread " + std::to_string(racing) + ": read of 4 bytes\n    at line " +
                              std::to_string(100 + racing) + "\n"));
  }
}

TEST_CASE_FIXTURE(Launch, "neighbouring bytes are not one") {
  for (std::uint32_t i = 0; i < 16; ++i) write(i, shared[0].bytes + i, 1);
  CHECK(finding().empty());
  touch(0, 20, output + 32, 16, Access::write);
  for (std::uint32_t i = 0; i < 4; ++i) touch(1, i, output + 48 + i, 1, Access::write);
  CHECK(finding().empty());
  touch(1, 9, output + 47, 1, Access::read, 4);
  CHECK(finding().starts_with("race in global memory: 'output'+47 (element 47 of 1 byte)"));
}

TEST_CASE_FIXTURE(Launch, "readers stay known when cells are split") {
  for (std::uint32_t i = 0; i < 8; ++i) touch(0, i, input, 16, Access::read, 30 + i);
  touch(1, 0, input + 5, 1, Access::write);
  CHECK(finding().starts_with("race in global memory: 'input'+5 "));
  touch(1, 1, input + 6, 1, Access::write);
  CHECK(finding().starts_with("race in global memory: 'input'+6 "));
}

TEST_CASE_FIXTURE(Launch, "atomics do not race with atomics in scope") {
  for (std::uint32_t i = 0; i < kThreads; ++i) touch(0, i, input, 4, Access::atomic);
  CHECK(finding().empty());
  touch(1, 0, input, 4, Access::atomic, 6, Scope::device);
  CHECK(finding().starts_with(
      "race in global memory: 'input'+0 (element 0 of 4 bytes): atomic operation on 4 bytes, device "
      "scope, and an earlier atomic operation on 4 bytes, block scope, in no order: block scope does not include "
      "both\n"));
  for (std::uint32_t block = 0; block < kBlocks; ++block)
    for (std::uint32_t i = 0; i < kThreads; ++i) touch(block, i, input + 4, 4, Access::atomic, 1, Scope::device);
  CHECK(finding().empty());
  touch(0, 1, input + 8, 4, Access::atomic, 1, Scope::cluster);
  touch(1, 1, input + 8, 4, Access::atomic, 1, Scope::cluster);
  CHECK(finding().empty());
  touch(2, 1, input + 8, 4, Access::atomic, 1, Scope::cluster);
  CHECK(finding().find("cluster scope does not include both") != std::string::npos);
}

TEST_CASE_FIXTURE(Launch, "atomics race with plain accesses") {
  for (std::uint32_t i = 0; i < kThreads; ++i) touch(0, i, input, 4, Access::atomic, 10 + i);
  sync();
  for (std::uint32_t i = 0; i < kThreads; ++i) read(i, input);
  CHECK(finding().empty());
  touch(0, 9, input, 4, Access::atomic);
  CHECK(finding().starts_with(
      "race in global memory: 'input'+0 (element 0 of 4 bytes): atomic operation on 4 bytes, block "
      "scope, and an earlier read of 4 bytes"));
  write(8, input + 4);
  touch(0, 9, input + 4, 4, Access::atomic_load);
  CHECK(finding().find("atomic load of 4 bytes, block scope, and an earlier write of 4 bytes") != std::string::npos);
  read(8, input + 8);
  touch(0, 9, input + 8, 4, Access::atomic_load);
  read(7, input + 8);
  CHECK(finding().empty());
  touch(0, 9, input + 12, 4, Access::atomic);
  touch(0, 10, input + 12, 4, Access::atomic);
  read(10, input + 12);
  CHECK(finding().find("earlier, block 0, thread 9: atomic operation") != std::string::npos);
}

TEST_CASE_FIXTURE(Launch, "a plain read stays remembered behind the same thread's atomics") {
  read(3, input);
  touch(0, 3, input, 4, Access::atomic);
  touch(0, 4, input, 4, Access::atomic);
  CHECK(finding().find("earlier, block 0, thread 3: read of 4 bytes") != std::string::npos);
}

TEST_CASE_FIXTURE(Launch, "the last block's pattern: counted with release and acquire, then read by one block") {
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    for (std::uint32_t i = 0; i < kThreads; ++i)
      touch(block, i, output + std::size_t{4} * block, 1, i == 0 ? Access::write : Access::read);
    found.clear();
    sync(block);
    touch(block, 0, input, 4, Access::atomic, 1, Scope::device);
    checker->release(threads[block][0], input);
    checker->acquire(threads[block][0], input);
    sync(block);
    if (block + 1 < kBlocks) checker->block_ended(blocks[block]);
  }
  for (std::uint32_t block = 0; block < kBlocks; ++block)
    touch(3, 60, output + std::size_t{4} * block, 1, Access::read);
  CHECK(finding().empty());
  touch(3, 0, input, 4, Access::write);
  CHECK(finding().empty());
}

TEST_CASE_FIXTURE(Launch, "a copy that nobody waited for races with the reader of its tile") {
  const std::vector<std::uint32_t> issuer = {5};
  const Actor copy = checker->fork(blocks[0], issuer, "tensor copy", 11);
  checker->access(copy, input, 64, 1, Access::read);
  checker->access(copy, shared[0].bytes, 64, 16, Access::write);
  int phase = 0;
  checker->release(copy, &phase);
  checker->end(copy);
  checker->acquire(threads[0][6], &phase);
  read(6, shared[0].bytes + 60);
  CHECK(finding().empty());
  read(7, shared[0].bytes + 60, 4, 12);
  CHECK(finding() ==
        "race in shared memory: shared+0x3c: read of 4 bytes, and an earlier tensor copy (write), in no order\n"
        "  block 0, thread 7: read of 4 bytes\n    at line 12\n"
        "  earlier, block 0, thread 5: tensor copy (write)\n    at line 11\n");
}

TEST_CASE_FIXTURE(Launch, "a copy into a tile that is still read is a race, whichever came first") {
  const std::vector<std::uint32_t> producer = {0}, consumer = {32};
  int empty = 0;
  write(32, shared[0].bytes, 16);
  const Actor product = checker->fork(blocks[0], consumer, "matrix product", 21);
  checker->release(threads[0][32], &empty);  // the stage is released before the product was waited for
  checker->acquire(threads[0][0], &empty);
  const Actor copy = checker->fork(blocks[0], producer, "tensor copy", 22);
  SUBCASE("the product reads first") {
    checker->access(product, shared[0].bytes, 16, 16, Access::read);
    checker->access(copy, shared[0].bytes, 16, 16, Access::write);
    CHECK(finding().find("earlier, block 0, thread 32: matrix product (read)\n    at line 21") != std::string::npos);
  }
  SUBCASE("the copy writes first") {
    checker->access(copy, shared[0].bytes, 16, 16, Access::write);
    checker->access(product, shared[0].bytes, 16, 16, Access::read);
    CHECK(finding().find("earlier, block 0, thread 0: tensor copy (write)\n    at line 22") != std::string::npos);
  }
  SUBCASE("the product was waited for") {
    checker->access(product, shared[0].bytes, 16, 16, Access::read);
    complete(threads[0][32], product);
    checker->release(threads[0][32], &empty);
    checker->acquire(threads[0][0], &empty);
    const Actor next = checker->fork(blocks[0], producer, "tensor copy", 23);
    checker->access(next, shared[0].bytes, 16, 16, Access::write);
    CHECK(finding().empty());
  }
}

TEST_CASE_FIXTURE(Launch, "readers of global memory from many blocks are remembered within bounds") {
  for (int round = 0; round < 50; ++round)
    for (std::uint32_t block = 0; block < kBlocks; ++block)
      for (std::uint32_t i = 0; i < kThreads; ++i) touch(block, i, input, 16, Access::read);
  CHECK(finding().empty());
  touch(3, 0, input, 4, Access::write);
  CHECK(finding().starts_with("race in global memory"));
}

TEST_CASE_FIXTURE(Launch, "a tile is read in the swizzle in which it was laid") {
  const std::vector<std::uint32_t> thread = {0};
  const Actor copy = checker->fork(blocks[0], thread, "tensor copy", 31);
  checker->set_swizzle(copy, 128);
  checker->access(copy, shared[0].bytes, 256, 16, Access::write);
  complete(threads[0][0], copy);
  write(0, shared[0].bytes + 128, 16);  // of which swizzle threads think, nobody knows
  const auto product = [&](std::uint32_t span) {
    const Actor actor = checker->fork(blocks[0], thread, "matrix product", 32);
    checker->set_swizzle(actor, span);
    checker->access(actor, shared[0].bytes + 112, 16, 16, Access::read);
    checker->access(actor, shared[0].bytes + 128, 16, 16, Access::read);
  };
  product(128);
  CHECK(finding().empty());
  product(64);
  CHECK(
      finding() ==
      "misuse: shared+0x70: matrix product (read) takes it to lie in the 64-byte swizzle, and tensor copy (write) laid "
      "it in the 128-byte swizzle\n"
      "  block 0, thread 0: matrix product (read)\n    at line 32\n"
      "  block 0, thread 0: tensor copy (write)\n    at line 31\n");
  product(0);
  CHECK(finding().find("takes it to lie in no swizzle") != std::string::npos);
}

TEST_CASE_FIXTURE(Launch, "an operation that outlives its block is told") {
  const std::vector<std::uint32_t> thread = {3};
  const Actor copy = checker->fork(blocks[0], thread, "tensor copy", 41);
  checker->block_ended(blocks[0]);
  checker->access(copy, input, 64, 16, Access::read);
  checker->access(copy, shared[0].bytes + 64, 16, 16, Access::write);
  checker->end(copy);
  CHECK(finding() ==
        "misuse: shared+0x40: tensor copy (write) after block 0 has ended; the block must wait for it\n"
        "  block 0, thread 3: tensor copy (write)\n    at line 41\n");
}

TEST_CASE_FIXTURE(Launch, "an access of no bytes touches nothing") {
  read(0, output + 1000, 0);
  write(0, shared[0].bytes + kSharedBytes, 0);
  CHECK(finding().empty());
}

TEST_CASE("a set of accesses keeps to its most, and what is purged is given back") {
  const auto access = [](std::uint32_t actor) { return PastAccess{{actor, 1}, Tag(1, Access::read, Scope::block, 4)}; };
  AccessSets sets;
  Cell cell;
  for (std::uint32_t actor = 0; actor < 500; ++actor) sets.add(cell, access(actor), 50);
  AccessSet& set = *sets.find(cell);
  std::size_t count = 0;
  set.for_each([&](const PastAccess&) { ++count; });
  CHECK(count == 50);
  CHECK(set.size() == 50);
  CHECK(sets.entries() == 50);
  sets.erase_if(set, [](const PastAccess& past) { return past.epoch.actor % 2 == 0; });
  CHECK(set.size() < 50);
  CHECK(sets.entries() == set.size());
  sets.clear(cell);
  CHECK(sets.entries() == 0);
}
