// SPDX-License-Identifier: Apache-2.0
// mbarriers and asynchronous copies of the model: what they do, and what is reported where they are used wrongly.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "cpu/model/mbarrier.hpp"
#include "cpu/model/tensor_tile.hpp"
#include "cpu/model_support.hpp"
#include "tensor_map.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

constexpr std::uint32_t kSharedBytes = 8192, kBarrierAt = 4096;

unsigned long* barrier() { return reinterpret_cast<unsigned long*>(context().shared + kBarrierAt); }

std::vector<CpuReport> run(cpu::HostEntry function, void* parameter = nullptr, std::uint32_t threads = 32,
                           AsyncTiming timing = AsyncTiming::late) {
  return HostLaunch(function).block(threads).shared(kSharedBytes).timing(timing).run(parameter);
}

/// The one finding of a kernel that is used wrongly.
std::string finding(cpu::HostEntry function, CpuFinding expected, std::uint32_t threads = 1) {
  const auto reports = run(function, nullptr, threads);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == expected);
  return reports[0].what;
}

struct Copy {
  std::vector<std::uint32_t> source, target;
};

// Thread 0 copies 1 KB in, all read it, thread 0 copies it out again.
void there_and_back(void** parameters) {
  auto& copy = parameter<Copy>(parameters);
  auto* const words = shared<std::uint32_t>();
  if (me() == 0) moegen_cpu_mbarrier_init(barrier(), 1, 1);
  moegen_cpu_block_sync(0, 0, 1);
  if (me() == 0) {
    moegen_cpu_mbarrier_arrive(barrier(), 1, 1024, 2);
    moegen_cpu_bulk_load(words, copy.source.data(), 1024, barrier(), 2);
  }
  moegen_cpu_mbarrier_wait(barrier(), 0, 3);
  for (std::uint32_t i = me(); i < 256; i += 32) words[i] += 1;
  moegen_cpu_block_sync(0, 0, 4);
  if (me() == 0) {
    moegen_cpu_bulk_store(copy.target.data(), words, 1024, 5);
    moegen_cpu_bulk_commit(5);
    moegen_cpu_bulk_wait(0, 0, 5);
  }
}

// Each thread copies 8 bytes, then the half of 16 bytes, in two groups.
void small_copies(void** parameters) {
  auto& copy = parameter<Copy>(parameters);
  const std::size_t first = std::size_t{4} * me();
  auto* const words = shared<std::uint32_t>() + first;
  std::fill_n(words, 4, 9u);
  std::fill_n(words + 1024, 4, 9u);
  moegen_cpu_copy_async(words, copy.source.data() + first, 8, 8, 1);
  moegen_cpu_copy_commit(1);
  moegen_cpu_copy_async(words + 1024, copy.source.data() + first, 16, 8, 2);
  moegen_cpu_copy_commit(2);
  moegen_cpu_copy_wait(1, 3);
  std::copy_n(words, 4, copy.target.data() + first);
  moegen_cpu_copy_wait(0, 4);
  std::copy_n(words + 1024, 4, copy.target.data() + 128 + first);
}

// Each thread copies 8 bytes and arrives twice, at barriers that wait for all; another copy comes between the two.
void small_copies_arrive(void** parameters) {
  auto& copy = parameter<Copy>(parameters);
  const std::size_t first = std::size_t{2} * me();
  auto* const words = shared<std::uint32_t>() + first;
  if (me() == 0)
    for (int i = 0; i < 2; ++i) moegen_cpu_mbarrier_init(barrier() + i, 32, 1);
  moegen_cpu_block_sync(0, 0, 1);
  moegen_cpu_copy_async(words, copy.source.data() + first, 8, 8, 2);
  moegen_cpu_copy_arrive(barrier(), 2);
  moegen_cpu_copy_async(words + 64, copy.source.data() + 64 + first, 8, 4, 3);
  moegen_cpu_copy_arrive(barrier() + 1, 3);
  moegen_cpu_mbarrier_wait(barrier() + me() % 2, 0, 4);  // even threads: the first copies alone
  std::copy_n(shared<std::uint32_t>() + 62 - first, 2, copy.target.data() + first);
  moegen_cpu_mbarrier_wait(barrier() + 1, 0, 5);
  std::copy_n(words + 64, 2, copy.target.data() + 64 + first);
}

void copies_arrive_too_often(void**) {
  moegen_cpu_mbarrier_init(barrier(), 2, 1);
  moegen_cpu_mbarrier_arrive(barrier(), 2, 16, 2);
  moegen_cpu_copy_arrive(barrier(), 3);
}
void copies_arrive_nowhere(void**) { moegen_cpu_copy_arrive(barrier(), 1); }
void copies_that_do_not_arrive(void**) {
  moegen_cpu_mbarrier_init(barrier(), 2, 1);
  moegen_cpu_copy_arrive(barrier(), 2);
  moegen_cpu_mbarrier_wait(barrier(), 0, 3);
}

void arrive_twice(void**) {
  moegen_cpu_mbarrier_init(barrier(), 2, 1);
  moegen_cpu_mbarrier_arrive(barrier(), 2, 16, 2);
  moegen_cpu_mbarrier_arrive(barrier(), 1, 0, 3);
}
void wait_uninitialised(void**) { moegen_cpu_mbarrier_wait(barrier(), 0, 1); }
void init_twice(void**) {
  moegen_cpu_mbarrier_init(barrier(), 2, 1);
  moegen_cpu_mbarrier_init(barrier(), 2, 2);
}
void overwrite(void**) {
  moegen_cpu_mbarrier_init(barrier(), 2, 1);
  *barrier() = 0;
  moegen_cpu_mbarrier_arrive(barrier(), 1, 0, 2);
}
void expect_too_much(void**) {
  moegen_cpu_mbarrier_init(barrier(), 1, 1);
  moegen_cpu_mbarrier_expect(barrier(), 1 << 20, 2);
}
void invalidate_before_the_copy(void**) {
  alignas(16) static char source[16] = {};
  moegen_cpu_mbarrier_init(barrier(), 1, 1);
  moegen_cpu_bulk_load(context().shared, source, 16, barrier(), 2);
  moegen_cpu_mbarrier_invalidate(barrier(), 3);
}
void overwrite_before_the_copy(void**) {
  alignas(16) static char source[16] = {};
  moegen_cpu_mbarrier_init(barrier(), 1, 1);
  moegen_cpu_bulk_load(context().shared, source, 16, barrier(), 2);
  *barrier() = 0;
}
void bring_too_much(void**) {
  alignas(16) static char source[4096] = {};
  moegen_cpu_mbarrier_init(barrier(), 2, 1);
  for (int i = 0; i < 256; ++i) moegen_cpu_bulk_load(context().shared, source, 4096, barrier(), 2);
}
// Thread 0 arrives and ends the barrier before thread 1, which it woke, runs.
void invalidate_under_a_waiter(void**) {
  if (me() == 0) moegen_cpu_mbarrier_init(barrier(), 1, 1);
  moegen_cpu_block_sync(0, 0, 1);
  if (me() == 1) return moegen_cpu_mbarrier_wait(barrier(), 0, 2);
  cpu::Scheduler::current().yield();
  moegen_cpu_mbarrier_arrive(barrier(), 1, 0, 3);
  moegen_cpu_mbarrier_invalidate(barrier(), 4);
}
void wait_for_a_peer(void**) {
  if (context().cluster_rank == 0) moegen_cpu_mbarrier_init(barrier(), 1, 1);
  moegen_cpu_cluster_arrive(2);
  moegen_cpu_cluster_wait(2);
  auto* const first = static_cast<unsigned long*>(moegen_cpu_map_cluster_shared(barrier(), 0, 3));
  if (context().cluster_rank == 1) moegen_cpu_mbarrier_wait(first, 0, 4);
  moegen_cpu_cluster_arrive(5);
  moegen_cpu_cluster_wait(5);
}
void count_zero(void**) { moegen_cpu_mbarrier_init(barrier(), 0, 1); }
void wait_for_nobody(void**) {
  moegen_cpu_mbarrier_init(barrier(), 2, 1);
  moegen_cpu_mbarrier_arrive(barrier(), 1, 48, 2);
  moegen_cpu_mbarrier_wait(barrier(), 0, 3);
}
void odd_size(void**) {
  moegen_cpu_mbarrier_init(barrier(), 1, 1);
  alignas(16) char source[32] = {};
  moegen_cpu_bulk_load(context().shared, source, 24, barrier(), 2);
}
void past_the_end(void**) {
  alignas(16) char target[32] = {};
  moegen_cpu_bulk_store(target, context().shared + kSharedBytes - 16, 32, 2);
}
void no_map(void**) {
  alignas(64) const TensorMap map = {};
  const int at[] = {0, 0};
  moegen_cpu_tensor_store(&map, at, 2, context().shared, 1);
}

// The innermost coordinate is two bytes off.
void between_pieces(void**) {
  alignas(16) static std::uint16_t tensor[8 * 8];
  alignas(64) const TensorMap map = encode_for_cpu(
      {.element = TensorElement::uint16, .base = tensor, .dims = {8, 8}, .strides = {16}, .box = {8, 8}});
  const int at[] = {1, 0};
  moegen_cpu_tensor_store(&map, at, 2, context().shared, 1);
}

void store_before_the_tensor(void**) {
  alignas(16) static std::uint16_t tensor[8 * 8];
  alignas(64) const TensorMap map = encode_for_cpu(
      {.element = TensorElement::uint16, .base = tensor, .dims = {8, 8}, .strides = {16}, .box = {8, 8}});
  const int at[] = {0, -1};
  moegen_cpu_tensor_store(&map, at, 2, context().shared, 1);
}

constexpr AsyncTiming kTimings[] = {AsyncTiming::eager, AsyncTiming::late, AsyncTiming::random};

// From or to an address that nothing is at.
const char* nowhere() { return reinterpret_cast<const char*>(64); }
char* nowhere_to_write() { return reinterpret_cast<char*>(64); }

void bulk_load_from_nowhere(void**) {
  if (me() == 3) {
    moegen_cpu_mbarrier_init(barrier(), 1, 1);
    moegen_cpu_mbarrier_arrive(barrier(), 1, 16, 2);
    moegen_cpu_bulk_load(context().shared, nowhere(), 16, barrier(), 5);
    moegen_cpu_mbarrier_wait(barrier(), 0, 6);
  }
  moegen_cpu_block_sync(0, 0, 7);
}
void bulk_store_to_nowhere(void**) {
  if (me() == 3) moegen_cpu_bulk_store(nowhere_to_write(), context().shared, 16, 5);
}
void copy_from_nowhere(void**) {
  if (me() == 3) moegen_cpu_copy_async(context().shared, nowhere(), 16, 16, 5);
  moegen_cpu_block_sync(0, 0, 7);
}
void tensor_load_from_nowhere(void**) {
  if (me() == 3) {
    alignas(64) const TensorMap map = encode_for_cpu(
        {.element = TensorElement::uint16, .base = nowhere_to_write(), .dims = {8, 8}, .strides = {16}, .box = {8, 1}});
    const int at[] = {0, 0};
    moegen_cpu_mbarrier_init(barrier(), 1, 1);
    moegen_cpu_tensor_load(context().shared, &map, at, 2, barrier(), 0, 5);
  }
  moegen_cpu_block_sync(0, 0, 7);
}

// A tile with corners outside the tensor, as rows of words.
struct TileCopy {
  TensorMap map;
  int at[2];
  std::vector<unsigned char> tile;
};

void load_tile(void** parameters) {
  auto& copy = parameter<TileCopy>(parameters);
  if (me() != 0) return;
  moegen_cpu_mbarrier_init(barrier(), 1, 1);
  moegen_cpu_mbarrier_arrive(barrier(), 1, static_cast<unsigned>(copy.tile.size()), 2);
  moegen_cpu_tensor_load(context().shared, &copy.map, copy.at, 2, barrier(), 0, 2);
  moegen_cpu_mbarrier_wait(barrier(), 0, 3);
  std::copy_n(shared<unsigned char>(), copy.tile.size(), copy.tile.data());
}

}  // namespace

TEST_CASE("bulk copies bring and take what they should, whenever they take place") {
  for (AsyncTiming timing : kTimings) {
    Copy copy{std::vector<std::uint32_t>(256), std::vector<std::uint32_t>(256)};
    std::iota(copy.source.begin(), copy.source.end(), 100);
    CHECK(text(run(there_and_back, &copy, 32, timing)) == "");
    for (std::uint32_t i = 0; i < 256; ++i) CHECK(copy.target[i] == 101 + i);
  }
}

TEST_CASE("small copies fill with zeros and are waited for by group") {
  for (AsyncTiming timing : kTimings) {
    Copy copy{std::vector<std::uint32_t>(128), std::vector<std::uint32_t>(256)};
    std::iota(copy.source.begin(), copy.source.end(), 100);
    CHECK(text(run(small_copies, &copy, 32, timing)) == "");
    for (std::uint32_t i = 0; i < 128; ++i) {
      CHECK(copy.target[i] == (i % 4 < 2 ? 100 + i : 9));
      CHECK(copy.target[128 + i] == (i % 4 < 2 ? 100 + i : 0));
    }
  }
}

TEST_CASE("small copies arrive at a barrier when they are there, those issued before the arrival and no others") {
  for (AsyncTiming timing : kTimings) {
    Copy copy{std::vector<std::uint32_t>(128), std::vector<std::uint32_t>(128)};
    std::iota(copy.source.begin(), copy.source.end(), 100);
    CHECK(text(run(small_copies_arrive, &copy, 32, timing)) == "");
    for (std::uint32_t i = 0; i < 64; ++i) {
      CHECK(copy.target[i] == 100 + (62 - i / 2 * 2) + i % 2);
      CHECK(copy.target[64 + i] == (i % 2 == 0 ? 164 + i : 0));
    }
  }
}

TEST_CASE("a copy from or to a bad address ends the launch, not the process, whenever it takes place") {
  for (const cpu::HostEntry kernel :
       {bulk_load_from_nowhere, bulk_store_to_nowhere, copy_from_nowhere, tensor_load_from_nowhere}) {
    for (AsyncTiming timing : kTimings) {
      const auto reports = run(kernel, nullptr, 32, timing);
      REQUIRE(reports.size() == 1);
      CHECK(reports[0].finding == CpuFinding::fault);
      CHECK(text(reports) ==
            "bad address: null pointer + 64\n0/3 issued the operation that ran into it @k.cu:50 in f\n");
      Copy copy{std::vector<std::uint32_t>(256, 7), std::vector<std::uint32_t>(256)};
      CHECK(text(run(there_and_back, &copy, 32, timing)) == "");  // the next launch is fine
      CHECK(copy.target[255] == 8);
    }
  }
}

TEST_CASE("wrong use of mbarriers is reported in words") {
  using enum CpuFinding;
  CHECK(finding(arrive_twice, misuse) ==
        "one arrival too many at the mbarrier at shared+0x1000 of block 0: it was made for 2 a phase, and all have "
        "arrived");
  CHECK(
      finding(copies_arrive_too_often, misuse) ==
      "one arrival of copies too many at the mbarrier at shared+0x1000 of block 0: it was made for 2 a phase, and all "
      "have arrived");
  CHECK(finding(copies_arrive_nowhere, misuse) ==
        "cp.async.mbarrier.arrive of the mbarrier at shared+0x1000 of block 0, which was not initialised");
  CHECK(finding(wait_uninitialised, misuse) ==
        "mbarrier.try_wait of the mbarrier at shared+0x1000 of block 0, which was not initialised");
  CHECK(finding(init_twice, misuse) ==
        "mbarrier.init of the mbarrier at shared+0x1000 of block 0, which is one already; mbarrier.inval comes first");
  CHECK(finding(overwrite, misuse) ==
        "mbarrier.arrive of the mbarrier at shared+0x1000 of block 0, which something else wrote to: it holds 0x0");
  CHECK(finding(expect_too_much, misuse) ==
        "1048576 bytes are expected at the mbarrier at shared+0x1000 of block 0; at most 1048575 may be");
  CHECK(finding(invalidate_before_the_copy, misuse) ==
        "a copy completes on the mbarrier at shared+0x1000 of block 0, which was invalidated");
  CHECK(text(run(overwrite_before_the_copy, nullptr, 1)) ==
        "a copy completes on the mbarrier at shared+0x1000 of block 0, which something else wrote to: it holds 0x0\n"
        "0/0 issued the copy @k.cu:20 in f\n");
  CHECK(
      finding(bring_too_much, misuse) ==
      "copies bring 1048576 bytes more than are expected at the mbarrier at shared+0x1000 of block 0; at most 1048575 "
      "may be");
  CHECK(finding(invalidate_under_a_waiter, misuse, 2) ==
        "mbarrier.try_wait of the mbarrier at shared+0x1000 of block 0, which was not initialised");
  CHECK(text(HostLaunch(wait_for_a_peer).grid(2).cluster(2).shared(kSharedBytes).run()) ==
        "mbarrier.try_wait of the mbarrier at shared+0x1000 of block 0, which is another block's; allowed for "
        "mbarrier.arrive alone\n1/0 mbarrier.try_wait @k.cu:40 in f\n");
  CHECK(finding(count_zero, misuse) == "mbarrier.init with a count of 0; allowed 1 to 1048575");
}

TEST_CASE("a wait that nothing ends says what is missing") {
  const auto reports = run(wait_for_nobody, nullptr, 1);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::deadlock);
  CHECK(text(reports).find("mbarrier at shared+0x1000, parity 0: 1 of 2 arrivals and 48 bytes are missing") !=
        std::string::npos);
}

TEST_CASE("a wait for arrivals of copies that do not come says what is missing") {
  const auto reports = run(copies_that_do_not_arrive, nullptr, 1);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::deadlock);
  CHECK(text(reports).find("parity 0: 1 of 2 arrivals and 0 bytes are missing") != std::string::npos);
}

TEST_CASE("wrong use of copies is reported in words") {
  using enum CpuFinding;
  CHECK(finding(odd_size, misuse) == "cp.async.bulk: the size is not a multiple of 16 bytes");
  CHECK(finding(past_the_end, out_of_bounds) ==
        "cp.async.bulk: 32 bytes at shared+0x1ff0 pass the end of shared memory at 0x2000");
  CHECK(finding(no_map, misuse) ==
        "cp.async.bulk.tensor: the tensor map is none of the CPU target: it was not encoded, or encoded for a GPU");
  CHECK(finding(between_pieces, misuse) ==
        "cp.async.bulk.tensor: the innermost coordinate 1 is byte 2 of a row; allowed multiples of 16 bytes: an H200 "
        "takes no other for a legal instruction");
  CHECK(finding(store_before_the_tensor, misuse) ==
        "cp.async.bulk.tensor: a store's coordinate is negative; an H200 takes that for an illegal instruction");
}

TEST_CASE("a tile's pieces are swizzled and what is outside the tensor is zero") {
  alignas(16) static std::uint16_t tensor[6 * 72];
  for (std::size_t i = 0; i < std::size(tensor); ++i) tensor[i] = static_cast<std::uint16_t>(i + 1);
  for (TensorSwizzle swizzle : {TensorSwizzle::span_32, TensorSwizzle::span_64, TensorSwizzle::span_128}) {
    const std::uint32_t span = span_bytes(swizzle), width = span / 2;
    TileCopy copy{encode_for_cpu({.element = TensorElement::uint16,
                                  .base = tensor,
                                  .dims = {72, 6},
                                  .strides = {144},
                                  .box = {width, 16},
                                  .swizzle = swizzle}),
                  {-8, -2},
                  std::vector<unsigned char>(std::size_t{16} * span)};
    CHECK(text(run(load_tile, &copy)) == "");
    for (std::uint32_t y = 0; y < 16; ++y) {
      for (std::uint32_t x = 0; x < width; ++x) {
        // Piece number within the span, xor-ed with the number of the 128-byte line.
        const std::uint32_t piece = x / 8 ^ (y * span / 128 % 8 & (span / 16 - 1));
        const std::uint32_t at = y * span + piece * 16 + x % 8 * 2;
        const bool inside = x >= 8 && x < 80 && y >= 2 && y < 8;
        CHECK((copy.tile[at] | copy.tile[at + 1] << 8) == (inside ? tensor[(y - 2) * 72 + x - 8] : 0));
      }
    }
  }
}

TEST_CASE("the word of an mbarrier holds its fields") {
  const cpu::MbarrierWord word{.pending = 3, .expected = cpu::kMostArrivals, .bytes = -cpu::kMostBytes, .phase = 1};
  const auto again = cpu::MbarrierWord::from(word.word());
  CHECK(again.pending == 3);
  CHECK(again.expected == cpu::kMostArrivals);
  CHECK(again.bytes == -cpu::kMostBytes);
  CHECK(again.phase == 1);
}

TEST_CASE("descriptions of tensor maps are checked by name") {
  alignas(16) static char memory[64];
  const auto wrong = [](auto change) {
    TensorMapDescription map{.element = TensorElement::bfloat16,
                             .base = memory,
                             .dims = {64, 8},
                             .strides = {128},
                             .box = {64, 8},
                             .swizzle = TensorSwizzle::span_128,
                             .name = "a"};
    change(map);
    try {
      check_tensor_map(map);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Map = TensorMapDescription;
  CHECK(wrong([](Map&) {}) == "");
  CHECK(wrong([](Map& m) { m.dims.clear(); }) == "a: 0 dimensions; allowed 1 to 5");
  CHECK(wrong([](Map& m) { m.strides.clear(); }) ==
        "a: 0 strides for 2 dimensions; allowed 1, one for each but the innermost");
  CHECK(wrong([](Map& m) { m.box.pop_back(); }) == "a: 1 box extents for 2 dimensions; allowed one for each");
  CHECK(wrong([](Map& m) { m.base = nullptr; }) == "a: base is null; it must be the address of the tensor");
  CHECK(wrong([](Map& m) { m.base = memory + 8; }).find("is not aligned to 16 bytes") != std::string::npos);
  CHECK(wrong([](Map& m) { m.dims[1] = 0; }) == "a: dimension 1 has 0 elements; allowed 1 to 2^32");
  CHECK(wrong([](Map& m) { m.dims[0] = (1ull << 32) + 1; }) ==
        "a: dimension 0 has 4294967297 elements; allowed 1 to 2^32");
  CHECK(wrong([](Map& m) { m.strides[0] = 136; }) == "a: stride 0 is 136 bytes; allowed multiples of 16");
  CHECK(wrong([](Map& m) { m.strides[0] = 1ull << 40; }) == "a: stride 0 is 1099511627776 bytes; allowed below 2^40");
  CHECK(wrong([](Map& m) { m.box[1] = 257; }) == "a: box extent 1 is 257 elements; allowed 1 to 256");
  CHECK(wrong([](Map& m) { m.box[0] = 4; }) == "a: the box is 8 bytes wide; allowed multiples of 16");
  CHECK(wrong([](Map& m) { m.box[0] = 128; }) ==
        "a: the box is 256 bytes wide; allowed at most 128 with a swizzle of 128 bytes");
}
