// SPDX-License-Identifier: Apache-2.0
// A warp-specialised matrix product (kernels/matmul.cuh) on the CPU target: right under every schedule, without a
// report of the checks; and with one seeded bug each, found.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "cpu/matmul.hpp"
#include "support/cpu_text.hpp"

using namespace moegen;

namespace {

constexpr Dtype kElements[] = {Dtype::bfloat16, Dtype::float8_e4m3fn};

std::vector<std::string> entries() {
  return {test::matmul_entry(Dtype::bfloat16), test::matmul_entry(Dtype::float8_e4m3fn)};
}

/// The text with `right` replaced by `wrong`, which must be in it.
std::string seeded(const std::string& right, const std::string& wrong) {
  std::string text = test::matmul_text();
  const std::size_t at = text.find(right);
  REQUIRE_MESSAGE(at != std::string::npos, right);
  return text.replace(at, right.size(), wrong);
}

struct Outcome {
  std::vector<CpuReport> reports;
  std::size_t num_wrong = 0;
};

Outcome run(const test::CpuText& text, const test::MatmulProblem& problem, const CpuOptions& options,
            std::uint32_t grid) {
  const CpuBuffer a(problem.a.size(), "a"), b(problem.b.size(), "b"), c(problem.c.size() * sizeof(float), "c");
  std::copy(problem.a.begin(), problem.a.end(), static_cast<unsigned char*>(a.data()));
  std::copy(problem.b.begin(), problem.b.end(), static_cast<unsigned char*>(b.data()));
  test::MatmulArguments arguments{.a = encode_for_cpu(problem.map('a', a.data())),
                                  .b = encode_for_cpu(problem.map('b', b.data())),
                                  .c = static_cast<float*>(c.data()),
                                  .m = problem.m,
                                  .n = problem.n,
                                  .k = problem.k};
  void* parameters[] = {&arguments};
  Outcome outcome;
  outcome.reports = text.run(test::matmul_entry(problem.element),
                             {.grid = grid, .block = test::kMatmulThreads, .shared_bytes = test::kMatmulSharedBytes},
                             parameters, options);
  const auto* result = static_cast<const float*>(c.data());
  outcome.num_wrong = problem.num_wrong({result, result + problem.c.size()});
  return outcome;
}

CpuOptions options(Schedule schedule, AsyncTiming timing, std::uint64_t seed = 1) {
  CpuOptions chosen;
  chosen.schedule = schedule;
  chosen.async_timing = timing;
  chosen.seed = seed;
  return chosen;
}

bool any(const std::vector<CpuReport>& reports, CpuFinding finding) {
  return std::any_of(reports.begin(), reports.end(), [&](const CpuReport& r) { return r.finding == finding; });
}

void check_right(const test::CpuText& text, const test::MatmulProblem& problem, const CpuOptions& chosen) {
  const Outcome outcome = run(text, problem, chosen, 2);
  CHECK_MESSAGE(outcome.reports.empty(), test::text(outcome.reports));
  CHECK(outcome.num_wrong == 0);
}

}  // namespace

TEST_CASE("the product is right under every schedule and timing") {
  const test::CpuText text(test::matmul_text(), "matmul.cu", find_arch("sm_90a"), entries());
  for (Dtype element : kElements) {
    const test::MatmulProblem problem(element, 256, 256, 768);
    REQUIRE(std::count(problem.c.begin(), problem.c.end(), 0.0f) < static_cast<std::ptrdiff_t>(problem.c.size() / 20));
    for (AsyncTiming timing : {AsyncTiming::eager, AsyncTiming::late, AsyncTiming::random}) {
      check_right(text, problem, options(Schedule::fair, timing));
      for (std::uint64_t seed : {1, 2}) check_right(text, problem, options(Schedule::chaos, timing, seed));
    }
  }
}

TEST_CASE("the checks find nothing in the right text") {
  const test::CpuText text(test::matmul_text(), "matmul.cu", find_arch("sm_90a"), entries(), true);
  for (Dtype element : kElements) {
    const test::MatmulProblem problem(element, 128, 256, 768);
    check_right(text, problem, options(Schedule::fair, AsyncTiming::late));
    check_right(text, problem, options(Schedule::chaos, AsyncTiming::random, 3));
  }
}

TEST_CASE("a stage released while products still read it is a race") {
  const test::CpuText text(seeded("if (k > 0) release_stage(shared, previous);", "release_stage(shared, at.stage);"),
                           "matmul.cu", find_arch("sm_90a"), entries(), true);
  const test::MatmulProblem problem(Dtype::bfloat16, 128, 128, 1024);
  const Outcome outcome = run(text, problem, options(Schedule::fair, AsyncTiming::late), 1);
  CHECK_MESSAGE(any(outcome.reports, CpuFinding::race_shared), test::text(outcome.reports));
}

TEST_CASE("a barrier made for too many arrivals is a deadlock") {
  const test::CpuText text(seeded("mbarrier_init(&shared.empty[stage], kMultiplyingWarps);",
                                  "mbarrier_init(&shared.empty[stage], kMultiplyingWarps + 1);"),
                           "matmul.cu", find_arch("sm_90a"), entries());
  const Outcome outcome =
      run(text, test::MatmulProblem(Dtype::bfloat16, 128, 128, 1024), options(Schedule::fair, AsyncTiming::late), 1);
  REQUIRE(outcome.reports.size() == 1);
  CHECK(outcome.reports[0].finding == CpuFinding::deadlock);
  CHECK_MESSAGE(test::text(outcome.reports).find("mbarrier at shared+") != std::string::npos,
                test::text(outcome.reports));
}

TEST_CASE("a barrier made for half of the arrivals is a race") {
  const test::CpuText text(seeded("mbarrier_init(&shared.empty[stage], kMultiplyingWarps);",
                                  "mbarrier_init(&shared.empty[stage], kMultiplyingWarps / 2);"),
                           "matmul.cu", find_arch("sm_90a"), entries(), true);
  const Outcome outcome =
      run(text, test::MatmulProblem(Dtype::bfloat16, 128, 128, 1024), options(Schedule::fair, AsyncTiming::late), 1);
  CHECK_MESSAGE(any(outcome.reports, CpuFinding::race_shared), test::text(outcome.reports));
}

TEST_CASE("descriptors of another swizzle than the tensor map's give wrong results") {
  const test::CpuText text(seeded("matrix_descriptor(shared.b(stage), Swizzle::span_128, 0, 8 * kDepthBytes)",
                                  "matrix_descriptor(shared.b(stage), Swizzle::none, 16, 8 * kDepthBytes)"),
                           "matmul.cu", find_arch("sm_90a"), entries());
  const test::MatmulProblem problem(Dtype::bfloat16, 128, 128, 256);
  const Outcome outcome = run(text, problem, options(Schedule::fair, AsyncTiming::late), 1);
  CHECK_MESSAGE(outcome.reports.empty(), test::text(outcome.reports));
  CHECK(outcome.num_wrong > problem.c.size() / 2);
}

TEST_CASE("descriptors of another swizzle than the tensor map's are told") {
  const test::CpuText text(seeded("matrix_descriptor(shared.b(stage), Swizzle::span_128, 0, 8 * kDepthBytes)",
                                  "matrix_descriptor(shared.b(stage), Swizzle::none, 16, 8 * kDepthBytes)"),
                           "matmul.cu", find_arch("sm_90a"), entries(), true);
  const test::MatmulProblem problem(Dtype::bfloat16, 128, 128, 256);
  for (std::uint64_t seed = 0; seed <= 8; ++seed) {
    const auto chosen =
        seed == 0 ? options(Schedule::fair, AsyncTiming::late) : options(Schedule::chaos, AsyncTiming::random, seed);
    const Outcome outcome = run(text, problem, chosen, 1);
    REQUIRE(!outcome.reports.empty());
    const CpuReport& report = outcome.reports[0];
    REQUIRE(report.parties.size() == 2);
    CHECK(report.finding == CpuFinding::misuse);
    CHECK(report.what.find("wgmma (read) takes it to lie in no swizzle") != std::string::npos);
    CHECK(report.what.find("laid it in the 128-byte swizzle") != std::string::npos);
    CHECK(report.parties[0].place.find("in multiply_stage") != std::string::npos);
    CHECK(report.parties[1].place.find("in load_tiles") != std::string::npos);
  }
}

TEST_CASE("reading accumulators before the wait gives no number") {
  const test::CpuText text(seeded("    wgmma_wait<0>();\n", ""), "matmul.cu", find_arch("sm_90a"), entries());
  const test::MatmulProblem problem(Dtype::bfloat16, 128, 128, 256);
  CHECK(run(text, problem, options(Schedule::fair, AsyncTiming::late), 1).num_wrong == problem.c.size());
}

TEST_CASE("its speed") {
  const test::CpuText text(test::matmul_text(), "matmul.cu", find_arch("sm_90a"), entries());
  for (Dtype element : kElements) {
    const test::MatmulProblem problem(element, 256, 256, 1024);
    const auto begin = std::chrono::steady_clock::now();
    run(text, problem, options(Schedule::fair, AsyncTiming::late), 1);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double operations = 2.0 * problem.m * problem.n * problem.k;
    MESSAGE(fmt::format("{}: {:.1f} GFLOP/s on one block", to_string(element), operations / seconds * 1e-9));
  }
}
