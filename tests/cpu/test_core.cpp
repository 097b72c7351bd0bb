// SPDX-License-Identifier: Apache-2.0
// Primitives of templates/core as kernels use them, on the CPU target: warps that are not full, atomics, fences, trap.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/arch.hpp>
#include <moegen/cpu_target.hpp>

#include "cpu/schedules.hpp"
#include "support/core_text.hpp"
#include "support/cpu_text.hpp"
#include "support/report_place.hpp"

using namespace moegen;

namespace {

constexpr std::size_t kWords = 1024;  ///< 64-bit ones of a kernel's output

/// A text with one entry, `kernel(uint32_t* out, uint64_t* wide)`, both in the same memory, zeros at the start.
class CoreKernel {
 public:
  explicit CoreKernel(std::string_view body, bool check = true, std::string_view before = "")
      : source_(test::core_text() + "using namespace moegen;\n" + std::string(before) +
                "extern \"C\" __global__ void kernel(uint32_t* out, uint64_t* wide) {\n" + std::string(body) + "\n}\n"),
        text_(source_, "kernel.cu", find_arch("sm_90a"), {"kernel"}, check) {}

  std::string run(const test::TextLaunch& shape, const CpuOptions& options = {}) {
    std::memset(memory_.data(), 0, memory_.size());
    void* data = memory_.data();
    void* parameters[] = {&data, &data};
    reports_ = text_.run("kernel", shape, parameters, options);
    return test::text(reports_);
  }
  std::uint32_t word(std::size_t index) const { return at<std::uint32_t>(index); }
  std::uint64_t wide(std::size_t index) const { return at<std::uint64_t>(index); }
  const std::vector<CpuReport>& reports() const { return reports_; }
  const std::string& source() const { return source_; }

 private:
  template <class Word>
  Word at(std::size_t index) const {
    return static_cast<const Word*>(memory_.data())[index];
  }

  std::string source_;
  test::CpuText text_;
  CpuBuffer memory_{8 * kWords, "out"};
  std::vector<CpuReport> reports_;
};

// ---- warps that are not full

constexpr std::string_view kWarp = R"(
  const uint32_t thread = thread_index();
  uint32_t* row = out + 8 * thread;
  row[0] = ballot(thread % 3 == 0);
  row[1] = warp_sum(thread + 1);
  row[2] = warp_max(1000 - thread);
  row[3] = shuffle_up(100 + thread, 1, 7);
  row[4] = shuffle_up(100 + thread, 5, 9);
  warp_sync();
  row[5] = lanes_below();
)";

/// What a thread of `count` finds: of its warp, the threads first..end-1.
std::array<std::uint32_t, 6> expected_row(std::uint32_t thread, std::uint32_t count) {
  const std::uint32_t first = thread / 32 * 32, end = std::min(first + 32, count), lane = thread - first;
  std::array<std::uint32_t, 6> row{};
  for (std::uint32_t other = first; other < end; ++other) {
    row[0] |= static_cast<std::uint32_t>(other % 3 == 0) << (other - first);
    row[1] += other + 1;
  }
  row[2] = 1000 - first;
  row[3] = lane >= 1 ? 99 + thread : 7;
  row[4] = lane >= 5 ? 95 + thread : 9;
  row[5] = (1u << lane) - 1;
  return row;
}

// ---- atomics

/// One operation as text and what it does: `W` is the word's type.
struct Step {
  std::string_view call;
  std::uint64_t old, now;
};

constexpr std::uint64_t kWide = 1ull << 40;  ///< what a 32-bit word would lose

// clang-format off
constexpr Step kSteps[] = {
    {"atomic_exchange(word, W(20 * U))", 0, 20},
    {"atomic_add(word, W(5 * U))", 20, 25},
    {"atomic_add<MemoryOrder::acquire_release, MemoryScope::system>(word, W(0) - W(3 * U))", 25, 22},
    {"atomic_min(word, W(30 * U))", 22, 22},
    {"atomic_min<MemoryOrder::acquire>(word, W(12 * U))", 22, 12},
    {"atomic_max(word, W(11 * U))", 12, 12},
    {"atomic_max<MemoryOrder::release, MemoryScope::block>(word, W(13 * U))", 12, 13},
    {"atomic_and<MemoryOrder::relaxed, MemoryScope::cluster>(word, W(6 * U))", 13, 4},
    {"atomic_or(word, W(3 * U))", 4, 7},
    {"atomic_xor(word, W(5 * U))", 7, 2},
    {"atomic_compare_exchange(word, W(3 * U), W(9 * U))", 2, 2},
    {"atomic_compare_exchange<MemoryOrder::acquire_release>(word, W(2 * U), W(9 * U))", 2, 9},
    {"atomic_load<MemoryOrder::acquire>(word)", 9, 9},
    {"(atomic_store<MemoryOrder::release>(word, W(31 * U)), atomic_load(word))", 31, 31},
};
// clang-format on

/// Thread 0 takes the steps on a word in global memory and on one in shared memory; old and new values go to `wide`.
std::string steps_text(std::string_view type, std::string_view unit) {
  std::string text = fmt::format(
      "__device__ void take(uint64_t* wide, {0}* word) {{\n  using W = {0};\n  const W U = {1};\n", type, unit);
  for (const Step& step : kSteps) text += fmt::format("  *wide++ = {}; *wide++ = *word;\n", step.call);
  return text + "}\n";
}

}  // namespace

TEST_CASE("a warp that is not full: votes, sums and shuffles are among the lanes that there are") {
  for (bool check : {false, true}) {
    CoreKernel kernel(kWarp, check);
    for (std::uint32_t threads : {40u, 1u, 31u, 64u}) {
      for (const CpuOptions& options : test::all_schedules()) {
        REQUIRE(kernel.run({.block = threads}, options) == "");
        for (std::uint32_t thread = 0; thread < threads; ++thread) {
          const auto row = expected_row(thread, threads);
          CAPTURE(threads);
          CAPTURE(thread);
          for (std::size_t i = 0; i < row.size(); ++i) CHECK(kernel.word(8 * thread + i) == row[i]);
        }
      }
    }
  }
}

TEST_CASE("lanes that have ended take no part") {
  CoreKernel kernel("if (lane_index() % 4 == 3) return; out[thread_index()] = warp_sum(1) * 256 + ballot(true) % 256;");
  for (const CpuOptions& options : test::all_schedules()) {
    REQUIRE(kernel.run({.block = 40}, options) == "");
    for (std::uint32_t thread = 0; thread < 40; ++thread)
      CHECK(kernel.word(thread) == (thread % 4 == 3 ? 0 : (thread < 32 ? 24 : 6) * 256 + 0x77));
  }
}

TEST_CASE("atomics on words of 32 and 64 bits, in global and in shared memory") {
  const std::string before = steps_text("uint32_t", "1") + steps_text("uint64_t", fmt::format("{}ul", kWide));
  constexpr std::string_view kBody = R"(
  uint64_t* shared = reinterpret_cast<uint64_t*>(dynamic_shared());
  shared[0] = shared[1] = 0;
  take(wide, reinterpret_cast<uint32_t*>(wide + 1000));
  take(wide + 100, wide + 1001);
  take(wide + 200, reinterpret_cast<uint32_t*>(shared));
  take(wide + 300, shared + 1);)";
  for (bool check : {false, true}) {
    CoreKernel kernel(kBody, check, before);
    REQUIRE(kernel.run({.block = 1, .shared_bytes = 16}) == "");
    for (std::size_t i = 0; i < std::size(kSteps); ++i) {
      CAPTURE(kSteps[i].call);
      for (std::size_t base : {0, 100, 200, 300}) {
        const std::uint64_t unit = base % 200 == 0 ? 1 : kWide;
        CHECK(kernel.wide(base + 2 * i) == kSteps[i].old * unit);
        CHECK(kernel.wide(base + 2 * i + 1) == kSteps[i].now * unit);
      }
    }
    CHECK(kernel.word(2001) == 0);  // beside the 32-bit word
  }
}

TEST_CASE("minima are of unsigned words") {
  CoreKernel kernel(
      "out[0] = 0x80000000u; out[1] = atomic_min(out, 5); wide[2] = 1ul << 63; wide[3] = atomic_max(wide + 2, 5);");
  REQUIRE(kernel.run({.block = 1}) == "");
  CHECK(kernel.word(0) == 5);
  CHECK(kernel.word(1) == 0x80000000u);
  CHECK(kernel.wide(2) == 1ull << 63);
}

TEST_CASE("threads of many blocks meet at the same words") {
  constexpr std::string_view kBody = R"(
  const uint32_t number = block_index() * blockDim.x + thread_index();
  atomic_add(out, number);
  atomic_max(out + 1, number);
  atomic_min(out + 2, 0xFFFFFF00u | number % 256);
  atomic_or(out + 3, 1u << number % 32);
  atomic_xor(out + 4, number);
  atomic_add(wide + 3, 1ul << 33);
  uint32_t seen = atomic_load(out + 5);
  for (;;) {
    const uint32_t found = atomic_compare_exchange(out + 5, seen, seen + 2);
    if (found == seen) break;
    seen = found;
  })";
  for (bool check : {false, true}) {
    CoreKernel kernel(kBody, check);
    for (const CpuOptions& options : test::all_schedules()) {
      REQUIRE(kernel.run({.grid = 6, .block = 64}, options) == "");
      CHECK(kernel.word(0) == 383 * 384 / 2);
      CHECK(kernel.word(1) == 383);
      CHECK(kernel.word(2) == 0);  // it was 0
      CHECK(kernel.word(3) == 0xFFFFFFFFu);
      CHECK(kernel.word(4) == 0);  // 0 ^ 1 ^ ... ^ 383
      CHECK(kernel.wide(3) == 384ull << 33);
      CHECK(kernel.word(5) == 768);
    }
  }
}

// ---- what is contracted

TEST_CASE("the sums and products of math are rounded by themselves") {
  constexpr std::string_view kBody = R"(
  if (thread_index() != 0) return;
  const float c = 1.00048828125f;
  // 1 + 2^-12, of words that nobody knows to be 0: products of their own, each c + 2^-24.
  const auto a = [&](uint32_t i) { return 1.000244140625f + static_cast<float>(out[i]); };
  out[0] = float_bits(math::add(a(10) * a(11), -c));
  out[1] = float_bits(math::add(-c, a(12) * a(13)));
  out[2] = float_bits(math::subtract(a(14) * a(15), c));
  out[3] = float_bits(math::multiply(a(16), a(17)) - c);
  out[4] = float_bits(math::add(math::multiply(a(18), a(19)), -c));
  out[5] = float_bits(math::fma(a(20), a(21), -c));
  out[6] = float_bits(a(22) * a(23) - c);)";
  constexpr std::uint32_t kRest = 0x33800000;  // 2^-24
  CoreKernel kernel(kBody);
  REQUIRE(kernel.run({.grid = 1, .block = 32}) == "");
  for (std::size_t i = 0; i < 5; ++i) CHECK(kernel.word(i) == 0);
  CHECK(kernel.word(5) == kRest);
  CHECK(kernel.word(6) == kRest);  // what the others would be
}

// ---- what atomics order

namespace {

/// Thread 0 of block 0 writes out[8] and tells; thread 0 of block 1 waits to be told and reads it.
struct Message {
  std::string_view name, tell, hear;
  bool ordered;
};

constexpr Message kMessages[] = {
    {"release and acquire", "atomic_store<MemoryOrder::release>(out, 1);",
     "while (atomic_load<MemoryOrder::acquire>(out) == 0) {}", true},
    {"a relaxed store", "atomic_store(out, 1);", "while (atomic_load<MemoryOrder::acquire>(out) == 0) {}", false},
    {"a relaxed load", "atomic_store<MemoryOrder::release>(out, 1);", "while (atomic_load(out) == 0) {}", false},
    {"fences around relaxed ones", "fence(); atomic_store(out, 1);", "while (atomic_load(out) == 0) {} fence();", true},
    {"a fence on one side", "fence(); atomic_store(out, 1);", "while (atomic_load(out) == 0) {}", false},
    {"a fence behind the store", "atomic_store(out, 1); fence();",
     "while (atomic_load<MemoryOrder::acquire>(out) == 0) {}", false},
    {"an exchange", "atomic_exchange<MemoryOrder::release, MemoryScope::system>(out, 1);",
     "while (atomic_exchange<MemoryOrder::acquire, MemoryScope::system>(out, 0) == 0) {}", true},
    {"a compare and swap", "atomic_compare_exchange<MemoryOrder::release>(out, 0, 1);",
     "while (atomic_compare_exchange<MemoryOrder::acquire>(out, 1, 0) != 1) {}", true},
    {"a relaxed compare and swap", "atomic_compare_exchange(out, 0, 1);",
     "while (atomic_compare_exchange<MemoryOrder::acquire>(out, 1, 0) != 1) {}", false},
    {"a compare and swap that writes nothing",
     "atomic_compare_exchange<MemoryOrder::acquire_release>(out, 7, 1); atomic_store(out + 1, 1);",
     "while (atomic_load(out + 1) == 0) {} atomic_load<MemoryOrder::acquire>(out);", false},
    {"64 bits", "atomic_or<MemoryOrder::release>(wide, 1ul << 50);",
     "while (atomic_load<MemoryOrder::acquire>(wide) == 0) {}", true},
    {"a sum that both sides add to", "atomic_add<MemoryOrder::acquire_release>(out, 1);",
     "while (atomic_add<MemoryOrder::acquire_release>(out, 0) == 0) {}", true},
    {"what is added to a released word", "atomic_store<MemoryOrder::release>(out, 1); atomic_add(out, 1);",
     "while (atomic_load<MemoryOrder::acquire>(out) < 2) {}", true},
};

std::string message_text(const Message& message) {
  return fmt::format(
      "if (thread_index() != 0) return;\nif (block_index() == 0) {{\n  out[8] = 5;\n  {}\n}} else {{\n  {}\n  out[9] = "
      "out[8];\n}}",
      message.tell, message.hear);
}

constexpr std::string_view kLock = R"(
  if (lane_index() != 0) return;
  while (atomic_compare_exchange<MemoryOrder::acquire>(out, 0, 1) != 0) {}
  out[8] += 1;
  atomic_store<MemoryOrder::release>(out, 0);)";

}  // namespace

TEST_CASE("releases and acquires order what threads of two blocks do") {
  for (const Message& message : kMessages) {
    CoreKernel kernel(message_text(message));
    for (const CpuOptions& options : test::all_schedules()) {
      CAPTURE(message.name);
      const std::string found = kernel.run({.grid = 2, .block = 32, .cooperative = true}, options);
      if (message.ordered) {
        CHECK(found == "");
      } else {
        REQUIRE_MESSAGE(kernel.reports().size() == 1, found);
        CHECK(kernel.reports()[0].finding == CpuFinding::race_global);
        CHECK(test::has_side(kernel.source(), kernel.reports()[0], "out[8] = 5"));
        CHECK(test::has_side(kernel.source(), kernel.reports()[0], "out[9] = out[8]"));
      }
      CHECK(kernel.word(9) == 5);
    }
  }
}

TEST_CASE("a lock of atomics") {
  CoreKernel kernel(kLock);
  for (const CpuOptions& options : test::all_schedules()) {
    CHECK(kernel.run({.grid = 2, .block = 128, .cooperative = true}, options) == "");
    CHECK(kernel.word(8) == 8);
  }
  std::string wrong(kLock);
  wrong.replace(wrong.find("<MemoryOrder::release>"), 22, "");
  CoreKernel unordered(wrong);
  CHECK(unordered.run({.grid = 2, .block = 128, .cooperative = true}) != "");
  CHECK(unordered.reports()[0].finding == CpuFinding::race_global);
}

TEST_CASE("a scope that is too narrow, and one that is just wide enough") {
  CoreKernel narrow("atomic_or<MemoryOrder::relaxed, MemoryScope::block>(out, 1);");
  const std::string found = narrow.run({.grid = 2, .block = 32});
  CHECK_MESSAGE(found.find("block scope does not include both") != std::string::npos, found);
  CHECK(narrow.run({.grid = 1, .block = 32}) == "");
  CoreKernel cluster("atomic_or<MemoryOrder::relaxed, MemoryScope::cluster>(out, 1);");
  CHECK(cluster.run({.grid = 2, .block = 32, .cluster = 2}) == "");
  const std::string apart = cluster.run({.grid = 2, .block = 32});
  CHECK_MESSAGE(apart.find("cluster scope does not include both") != std::string::npos, apart);
}

TEST_CASE("a launch with more threads than the text's launch bounds is refused") {
  const std::string text =
      "extern \"C\" __global__ void __launch_bounds__(96, 2) kernel(unsigned* out) { *out = 1; }\n";
  const test::CpuText kernel(text, "kernel.cu", find_arch("sm_90a"), {"kernel"});
  std::uint32_t word = 0;
  void* out = &word;
  void* parameters[] = {&out};
  CHECK(test::text(kernel.run("kernel", {.block = 97}, parameters)) ==
        "misuse: launch of 'kernel': 97 threads a block; its launch bounds say at most 96\n\n");
  CHECK(word == 0);
  CHECK(test::text(kernel.run("kernel", {.block = 96}, parameters)) == "");
  CHECK(word == 1);
}

TEST_CASE("an address in shared memory must be there") {
  struct Wrong {
    std::string_view pointer, what;
  };
  constexpr Wrong kWrong[] = {
      {"map_cluster_shared(words + 2, 1 - block_index())", "shared+0x8 of block 1 is not in the block's shared memory"},
      {"out + 3", "'out'+12 is not in the block's shared memory"},
      {"words + 65", "is not in the block's shared memory"},
  };
  for (bool check : {false, true}) {
    for (const Wrong& wrong : kWrong) {
      CoreKernel kernel(fmt::format("uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());\n"
                                    "if (block_index() == 0) out[0] = shared_address({}); cluster_arrive(); "
                                    "cluster_wait();",
                                    wrong.pointer),
                        check);
      const std::string found = kernel.run({.grid = 2, .block = 1, .shared_bytes = 256, .cluster = 2});
      REQUIRE_MESSAGE(kernel.reports().size() == 1, found);
      CHECK(kernel.reports()[0].finding == CpuFinding::misuse);
      CHECK_MESSAGE(kernel.reports()[0].what.starts_with("shared_address: "), found);
      CHECK_MESSAGE(kernel.reports()[0].what.ends_with(wrong.what), found);
      CHECK(test::has_side(kernel.source(), kernel.reports()[0], "= shared_address("));
    }
    CoreKernel right(
        "unsigned char* bytes = dynamic_shared();\nout[0] = shared_address(bytes + 4); out[1] = "
        "shared_address(bytes + 256);",
        check);
    CHECK(right.run({.block = 1, .shared_bytes = 256}) == "");
    CHECK(right.word(0) == 4);
    CHECK(right.word(1) == 256);  // right behind the end
  }
}

TEST_CASE("trap ends the launch") {
  for (bool check : {false, true}) {
    CoreKernel kernel("out[thread_index()] = 1;\nif (thread_index() == 5) trap();", check);
    const std::string found = kernel.run({.block = 32});
    REQUIRE_MESSAGE(kernel.reports().size() == 1, found);
    CHECK(kernel.reports()[0].what == "the kernel trapped");
    CHECK(kernel.reports()[0].parties.at(0).thread == 5);
    CHECK(test::has_side(kernel.source(), kernel.reports()[0], "== 5) trap();"));
  }
}

TEST_CASE("orders that an operation cannot have do not compile") {
  CHECK_THROWS(CoreKernel("atomic_store<MemoryOrder::acquire>(out, 1);"));
  CHECK_THROWS(CoreKernel("out[0] = atomic_load<MemoryOrder::release>(out);"));
}
