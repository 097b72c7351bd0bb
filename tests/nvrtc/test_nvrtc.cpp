// SPDX-License-Identifier: Apache-2.0
// NVRTC as it is on this machine: loading, flags, reports, and what a refused source looks like.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <moegen/error.hpp>

#include "cuda/nvrtc.hpp"
#include "cuda/resource_report.hpp"
#include "support/skip.hpp"

using namespace moegen;
using moegen::cuda::CompiledCubin;
using moegen::cuda::Nvrtc;

namespace {

const Nvrtc& nvrtc() {
  std::string why;
  static const auto loaded = Nvrtc::load(&why);
  if (!loaded) test::skip(why);
  return *loaded;
}

const Arch& hopper() { return find_arch("sm_90a"); }

constexpr const char* kEmpty = "extern \"C\" __global__ void empty() {}\n";

// Two entry points: one quiet, with shared memory, and one that cannot keep its values in 32 registers.
constexpr const char* kTwoEntries = R"(
extern "C" __global__ void quiet(float* a) {
  __shared__ float tile[128];
  tile[threadIdx.x % 128] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = tile[(threadIdx.x + 1) % 128];
}
extern "C" __global__ void __launch_bounds__(1024, 2) greedy(float* a, int n) {
  float s[100];
#pragma unroll
  for (int i = 0; i < 100; ++i) s[i] = a[i * n + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 100; ++i) a[i * n + threadIdx.x] = s[99 - i] * s[i];
}
)";

/// The CompileError that compiling `source` throws.
CompileError refused(const std::string& source, const std::vector<std::string>& entries) {
  try {
    nvrtc().compile(source, "kernel.cu", hopper(), entries);
  } catch (const CompileError& error) {
    return error;
  }
  FAIL("nothing was thrown");
  std::abort();
}

double best_milliseconds(const std::string& source, const std::vector<std::string>& entries) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    nvrtc().compile(source, "kernel.cu", hopper(), entries);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

}  // namespace

TEST_CASE("NVRTC is loaded once and says what it is") {
  CHECK(nvrtc().version().starts_with("nvrtc-"));
  CHECK(nvrtc().version_number() >= 12090);
  CHECK(nvrtc().path().find("libnvrtc") != std::string::npos);
  CHECK(Nvrtc::load().get() == &nvrtc());
}

TEST_CASE("an empty kernel compiles for every arch that this NVRTC knows") {
  std::size_t compiled = 0;
  const auto known = nvrtc().supported_archs();
  for (const Arch& arch : all_archs()) {
    std::string plain(arch.name);
    if (arch.accelerated) plain.pop_back();
    if (std::ranges::find(known, plain) == known.end()) continue;
    const CompiledCubin cubin = nvrtc().compile(kEmpty, "empty.cu", arch, {"empty"});
    CHECK(
        cubin.cubin.starts_with("\x7f"
                                "ELF"));
    CHECK(cubin.resources.size() == 1);
    ++compiled;
  }
  CHECK(compiled == all_archs().size());
}

TEST_CASE("the report has one row for each entry point asked for, in that order") {
  const CompiledCubin compiled = nvrtc().compile(kTwoEntries, "two.cu", hopper(), {"quiet", "greedy"});
  REQUIRE(compiled.resources.size() == 2);
  const EntryResources& quiet = compiled.resources[0];
  const EntryResources& greedy = compiled.resources[1];
  CHECK(quiet.entry == "quiet");
  CHECK(quiet.registers > 0);
  CHECK(quiet.shared_bytes == 512);
  CHECK(quiet.spill_store_bytes + quiet.spill_load_bytes == 0);
  CHECK(greedy.entry == "greedy");
  CHECK(greedy.registers <= 32);
  CHECK(greedy.spill_store_bytes > 0);
  CHECK(greedy.spill_load_bytes > 0);
  CHECK(greedy.stack_bytes > 0);
}

TEST_CASE("a second compile still reports resources: NVRTC's own cache is off") {
  for (int i = 0; i < 2; ++i)
    CHECK(nvrtc().compile(kTwoEntries, "two.cu", hopper(), {"greedy"}).resources[0].spill_store_bytes > 0);
}

TEST_CASE("a refused source gives its first diagnostic, the whole log and the text") {
  const std::string source = "extern \"C\" __global__ void k() { undefined_thing(); }\n";
  const CompileError error = refused(source, {"k"});
  CHECK(error.code() == ErrorCode::compile);
  CHECK(std::string(error.what()) ==
        "kernel.cu for sm_90a: " + nvrtc().version() +
            " says NVRTC_ERROR_COMPILATION: kernel.cu(1): error: identifier \"undefined_thing\" is undefined");
  CHECK(error.source() == source);
  CHECK(error.log().find("1 error detected") != std::string_view::npos);
}

TEST_CASE("bad PTX is a compile error that shows what ptxas says") {
  const CompileError error = refused("extern \"C\" __global__ void k() { asm volatile(\"bad.ptx;\"); }\n", {"k"});
  CHECK(std::string(error.what()).find("ptxas") != std::string::npos);
}

TEST_CASE("an entry point that the source does not define is refused") {
  CHECK(std::string(refused(kEmpty, {"empty", "absent"}).what()) ==
        "kernel.cu for sm_90a: the cubin has no entry point 'absent'");
}

TEST_CASE("a source without kernels is refused") {
  CHECK(std::string(refused("__device__ int nothing() { return 1; }\n", {"absent"}).what())
            .find("kernel.cu for sm_90a: the cubin has no entry point 'absent'") == 0);
}

TEST_CASE("NVRTC_APPEND_FLAGS is refused by name") {
  setenv("NVRTC_APPEND_FLAGS", "-G", 1);
  CHECK_THROWS_WITH_AS(nvrtc().compile(kEmpty, "empty.cu", hopper(), {"empty"}),
                       "environment: NVRTC_APPEND_FLAGS is '-G', which would change kernels behind the cache's back; "
                       "allowed unset or empty",
                       Error);
  setenv("NVRTC_APPEND_FLAGS", "", 1);
  CHECK_NOTHROW(nvrtc().compile(kEmpty, "empty.cu", hopper(), {"empty"}));
  unsetenv("NVRTC_APPEND_FLAGS");
}

TEST_CASE("the same source gives the same cubin, also from several threads at once") {
  const std::string expected = nvrtc().compile(kTwoEntries, "two.cu", hopper(), {"quiet"}).cubin;
  std::vector<std::string> got(4);
  std::vector<std::thread> threads;
  for (std::string& cubin : got)
    threads.emplace_back([&cubin] { cubin = nvrtc().compile(kTwoEntries, "two.cu", hopper(), {"quiet"}).cubin; });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& cubin : got) CHECK(cubin == expected);
}

TEST_CASE("an empty kernel compiles in well under a second") {
  const double milliseconds = best_milliseconds(kEmpty, {"empty"});
  MESSAGE("empty kernel, best of 3: " << milliseconds << " ms");
  CHECK(milliseconds < 1000);
}
