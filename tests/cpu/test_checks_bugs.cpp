// SPDX-License-Identifier: Apache-2.0
// Kernels with one seeded bug each are caught, by the right finding at the right lines, whatever the schedule; their
// correct twins raise nothing.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/arch.hpp>
#include <moegen/cpu_target.hpp>

#include "cpu/buffers.hpp"
#include "cpu/bug_table.hpp"
#include "cpu/launcher/library.hpp"
#include "cpu/target.hpp"
#include "support/core_text.hpp"
#include "support/cpu_text.hpp"
#include "support/report_place.hpp"

namespace {

using namespace moegen;
using test::BugKernel;
using test::SeededBug;

std::string kernel_text(std::string_view file) {
  return test::core_text() + test::without_includes(test::file_text("tests/cpu/bugs/" + std::string(file) + ".cuh"));
}

std::string seeded_text(const SeededBug& bug) {
  std::string text = kernel_text(bug.file);
  const std::size_t at = text.find(bug.right);
  REQUIRE_MESSAGE(at != std::string::npos, bug.name);
  REQUIRE_MESSAGE(text.find(bug.right, at + 1) == std::string::npos, bug.name);
  return text.replace(at, bug.right.size(), bug.wrong);
}

const BugKernel& kernel_of(std::string_view file) {
  const auto& kernels = test::bug_kernels();
  const auto kernel = std::ranges::find(kernels, file, &BugKernel::file);
  REQUIRE_MESSAGE(kernel != kernels.end(), file);
  return *kernel;
}

test::CpuText build(const std::string& text) { return {text, "kernel.cu", find_arch("sm_90a"), {"kernel"}, true}; }

/// One way of running a kernel.
struct Run {
  std::string name;
  CpuOptions options;
};

std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const AsyncTiming timing : {AsyncTiming::eager, AsyncTiming::late})
    runs.push_back(
        {timing == AsyncTiming::eager ? "fair, eager" : "fair, late", {.async_timing = timing, .check = true}});
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    runs.push_back({"chaos " + std::to_string(seed),
                    {.schedule = Schedule::chaos, .async_timing = AsyncTiming::random, .seed = seed, .check = true}});
  return runs;
}

/// What a launch found, and what it wrote.
struct Result {
  std::vector<CpuReport> reports;
  std::vector<std::uint32_t> output;
};

Result launch(const BugKernel& kernel, const test::CpuText& text, const CpuOptions& options) {
  const CpuBuffer output(4 * kernel.output_words, "output"), input(4 * kernel.input_words, "input");
  std::memset(output.data(), 0, output.size());
  for (std::uint32_t i = 0; i < kernel.input_words; ++i)
    static_cast<std::uint32_t*>(input.data())[i] = 7 * i + i * i + 1;
  void* output_data = output.data();
  void* input_data = input.data();
  std::uint32_t count = kernel.count;
  void* parameters[] = {&output_data, &input_data, &count};
  const test::TextLaunch shape = {.grid = kernel.grid,
                                  .block = kernel.block,
                                  .shared_bytes = kernel.shared_bytes,
                                  .cluster = kernel.cluster,
                                  .cooperative = kernel.cooperative};
  Result result{text.run("kernel", shape, parameters, options), std::vector<std::uint32_t>(kernel.output_words)};
  std::memcpy(result.output.data(), output.data(), output.size());
  return result;
}

bool is_expected(const std::string& text, const SeededBug& bug, const CpuReport& report) {
  return report.finding == bug.finding && report.what.find(bug.text) != std::string::npos &&
         test::has_side(text, report, bug.side) && test::has_side(text, report, bug.other);
}

/// An unwritten read is seen instead of a race where the read comes first and the writer never does.
bool is_caught(const std::string& text, const SeededBug& bug, const std::vector<CpuReport>& reports) {
  return std::ranges::any_of(reports, [&](const CpuReport& report) {
    const bool is_other = std::ranges::find(bug.also, report.finding) != bug.also.end();
    return is_expected(text, bug, report) ||
           (is_other && (test::has_side(text, report, bug.side) || test::has_side(text, report, bug.other)));
  });
}

bool is_allowed(const SeededBug& bug, const CpuReport& report) {
  return report.finding == bug.finding || std::ranges::find(bug.also, report.finding) != bug.also.end();
}

}  // namespace

TEST_CASE("correct kernels raise nothing, and all of them write the same") {
  for (const BugKernel& kernel : test::bug_kernels()) {
    const test::CpuText text = build(kernel_text(kernel.file));
    std::vector<std::uint32_t> first;
    for (const Run& run : all_runs()) {
      const Result result = launch(kernel, text, run.options);
      CHECK_MESSAGE(result.reports.empty(), kernel.file << ", " << run.name << ": " << test::text(result.reports));
      CHECK_MESSAGE(std::ranges::any_of(result.output, [](std::uint32_t word) { return word != 0; }), kernel.file);
      if (first.empty()) first = result.output;
      CHECK_MESSAGE(result.output == first, kernel.file << ", " << run.name);
    }
  }
}

TEST_CASE("seeded bugs are caught at their lines") {
  for (const SeededBug& bug : test::seeded_bugs()) {
    const std::string text = seeded_text(bug);
    const test::CpuText built = build(text);
    for (const Run& run : all_runs()) {
      const Result result = launch(kernel_of(bug.file), built, run.options);
      CHECK_MESSAGE(is_caught(text, bug, result.reports),
                    bug.name << ", " << run.name << ": " << test::text(result.reports));
      for (const CpuReport& report : result.reports)
        CHECK_MESSAGE(is_allowed(bug, report), bug.name << ", " << run.name << ": " << report.text());
    }
  }
}
