// SPDX-License-Identifier: Apache-2.0
// A launch during which memory runs out ends with a finding that says so, wherever that happens: no exception crosses
// the frames of a compiled text, and the next launch runs as ever. Every allocation of this process goes through here.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/arch.hpp>
#include <moegen/cpu_target.hpp>

#include "support/core_text.hpp"
#include "support/cpu_text.hpp"

namespace {

/// How many more allocations succeed before one fails; far below 0: all do.
constinit std::atomic<long> g_left = -1;

void* allocate(std::size_t bytes, std::size_t alignment) {
  const bool fails = g_left.load() >= 0 && g_left.fetch_sub(1) == 0;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = fails ? nullptr : std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace moegen;

namespace {

constexpr std::uint32_t kGrid = 4, kBlock = 64, kWords = 256;

/// Barriers, copies of both kinds, warps, atomics: what the model keeps memory for.
constexpr std::string_view kKernel = R"(
extern "C" __global__ void kernel(uint32_t* out, const uint32_t* in) {
  using namespace moegen;
  uint32_t* words = reinterpret_cast<uint32_t*>(dynamic_shared());
  uint64_t* barrier = reinterpret_cast<uint64_t*>(words + 256);
  const uint32_t thread = thread_index();
  if (thread == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_fence_init();
  }
  block_sync();
  if (thread == 0) {
    mbarrier_arrive_expect(barrier, 512);
    bulk_load(words, in, 512, barrier);
  }
  copy_async<8>(words + 128 + 2 * thread, in + 128 + 2 * thread);
  copy_commit();
  copy_wait<0>();
  mbarrier_wait(barrier, 0);
  block_sync();
  const uint32_t sum = warp_sum(words[thread] + words[64 + thread] + words[128 + thread] + words[192 + thread]);
  if (lane_index() == 0) atomic_add(out, sum);
  fence();
  if (thread == 0) bulk_store(out + 4 + 4 * block_index(), words, 16);
  bulk_commit();
  bulk_wait<0>();
}
)";

class Fixture {
 public:
  explicit Fixture(bool check)
      : text_(test::core_text() + std::string(kKernel), "kernel.cu", find_arch("sm_90a"), {"kernel"}, check) {
    for (std::uint32_t i = 0; i < kWords; ++i) static_cast<std::uint32_t*>(in_.data())[i] = i + 1;
  }

  /// The kernel's findings; allocation `number` of the launch fails, none if it is below 0.
  std::string run(long number, const CpuOptions& options) {
    std::memset(out_.data(), 0, out_.size());
    void* out = out_.data();
    void* in = in_.data();
    void* parameters[] = {&out, &in};
    const test::TextLaunch shape = {.grid = kGrid, .block = kBlock, .shared_bytes = 4 * kWords + 8};
    g_left = number;
    const std::vector<CpuReport> reports = text_.run("kernel", shape, parameters, options);
    failed_ = number >= 0 && g_left < 0;
    g_left = -1;
    return test::text(reports);
  }
  bool failed() const { return failed_; }
  std::uint32_t sum() const { return *static_cast<const std::uint32_t*>(out_.data()); }

 private:
  test::CpuText text_;
  CpuBuffer out_{1024, "out"}, in_{4 * kWords, "in"};
  bool failed_ = false;
};

void check_run(Fixture& fixture, long number, const CpuOptions& options) {
  const std::string found = fixture.run(number, options);
  CAPTURE(number);
  if (found.empty()) {
    CHECK(fixture.sum() == kGrid * kWords * (kWords + 1) / 2);
  } else {
    CHECK(fixture.failed());
    CHECK_MESSAGE(found.find("out of memory") != std::string::npos, found);
  }
}

}  // namespace

TEST_CASE("memory that runs out anywhere in a launch is a finding, and the next launch is as ever") {
  for (const bool check : {false, true}) {
    Fixture fixture(check);
    for (const AsyncTiming timing : {AsyncTiming::eager, AsyncTiming::late}) {
      const CpuOptions options{.async_timing = timing};
      REQUIRE(fixture.run(-1, options) == "");
      std::size_t failures = 0;
      for (long number = 0;; number += 1 + number / 40) {
        check_run(fixture, number, options);
        if (!fixture.failed()) break;
        ++failures;
        check_run(fixture, -1, options);
      }
      MESSAGE("launches that ran out of memory: " << failures);
      CHECK(failures > 20);
    }
  }
}
