// SPDX-License-Identifier: Apache-2.0
// grouped_matmul on a GPU against float64 sums computed there: the pairwise tables, the shapes of Modular's tests,
// weights beyond 32-bit offsets, and what it promises about bits.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/args/grouped_matmul.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "gpu/device_test.hpp"
#include "support/device_sums.hpp"
#include "support/gpu_text.hpp"
#include "support/grouped_matmul_table.hpp"
#include "support/matmul_candidates.hpp"
#include "support/matmul_claims.hpp"
#include "support/matmul_prepare.hpp"
#include "support/shard.hpp"
#include "verify/grouped_matmul_problem.hpp"
#include "verify/random.hpp"

using namespace moegen;

namespace {

// Products that the device sums in about a twentieth of a second.
constexpr std::int64_t kBudget = std::int64_t{1} << 36;

const Arch& device_arch() {
  const cuda::DeviceInfo device = cuda::device_info(0);
  return *arch_for_device(device.major, device.minor);
}

const test::GpuText& sums_text() {
  static const test::GpuText text(test::sums_text(), "matmul_sums.cu", device_arch(), {test::kSumsEntry});
  return text;
}

/// With MOEGEN_TEST_TRACE set, says on standard error what comes next: where a kernel hangs, nothing else does.
void trace(const test::MatmulTest& t) {
  if (std::getenv("MOEGEN_TEST_TRACE"))
    std::fprintf(stderr, "%s\n%s, %s\n", t.config.to_json().c_str(), t.kernel.c_str(), t.matmul_case.name().c_str());
}

void check(Engine& engine, const test::MatmulTest& t) {
  trace(t);
  CAPTURE(t.config.to_json());
  CAPTURE(t.kernel);
  CAPTURE(t.matmul_case.name());
  const Kernel kernel = engine.get(t.config, t.kernel);
  verify::GroupedMatmulProblem problem(Target::cuda, verify::matmul_spec(kernel, t.config), t.matmul_case);
  problem.run(kernel);
  const auto wrong = problem.compare(test::DeviceSums(Target::cuda, sums_text(), problem), kBudget);
  CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
}

void check_all(std::vector<test::MatmulTest> tests) {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const std::size_t asked = tests.size();
  tests = test::prepare(engine, device_arch(), std::move(tests));
  for (const test::MatmulTest& t : tests) check(engine, t);
  MESSAGE(tests.size() << " of " << asked << " cases; the rest this version refuses");
}

/// A cache folder of this process, gone at the end.
class TemporaryCache {
 public:
  TemporaryCache() : path_(std::filesystem::temp_directory_path() / ("moegen-portable-" + std::to_string(getpid()))) {}
  ~TemporaryCache() { std::filesystem::remove_all(path_); }
  TemporaryCache(const TemporaryCache&) = delete;
  TemporaryCache& operator=(const TemporaryCache&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Runs `tests` as every arch but the device's own accelerated one would: an engine that may not compile takes the
/// kernels of a lesser arch that it finds.
void check_portable(std::vector<test::MatmulTest> tests) {
  test::require_device();
  const cuda::PrimaryContext context;
  if (cuda::device_info(0).major != 9) test::skip("the device is not of compute capability 9.0");
  const TemporaryCache cache;
  EngineOptions options = EngineOptions::from_environment();
  options.cache_dir = cache.path();
  {
    Engine compiler(options);
    tests = test::prepare(compiler, find_arch("sm_90"), std::move(tests));
  }
  options.jit = false;
  Engine engine(options);
  for (const test::MatmulTest& t : tests) {
    REQUIRE(engine.get(t.config, t.kernel).plan().arch.name == "sm_90");
    check(engine, t);
  }
  MESSAGE(tests.size() << " cases");
}

std::vector<test::MatmulTest> shapes(const std::vector<test::MatmulShape>& shapes, std::vector<std::size_t> schemes,
                                     const char* output) {
  std::vector<test::MatmulTest> tests;
  for (const test::MatmulShape& shape : shapes)
    for (std::size_t scheme : schemes) tests.push_back(test::shape_test(shape, test::kMatmulSchemes[scheme], output));
  return tests;
}

void append(std::vector<test::MatmulTest>& all, std::vector<test::MatmulTest> more) {
  for (test::MatmulTest& t : more) all.push_back(std::move(t));
}

/// The cases of both tables that this process takes.
std::vector<test::MatmulTest> shard_of_tables() {
  const test::Shard shard = test::table_shard();
  std::vector<test::MatmulTest> tests;
  for (const bool up : {true, false}) {
    const test::MatmulTable table(up, {});
    for (std::size_t i = shard.first; i < table.size(); i += shard.step) tests.push_back(table.at(i));
  }
  REQUIRE(!tests.empty());
  return tests;
}

void run_on(const Kernel& kernel, verify::GroupedMatmulProblem& problem) { problem.run(kernel); }

// Both regimes of a plan: few rows an expert, and tiles full of them; with a user expression, and quantised.
std::vector<test::MatmulTest> claims() {
  const std::vector<test::MatmulOptions> fused = {
      {.up = false, .scheme = 0, .output = 2, .hidden = 1088, .intermediate = 304, .bias = true, .expression = 1},
      {.up = false, .scheme = 9, .output = 2, .hidden = 1088, .intermediate = 304, .bias = true, .expression = 1},
      {.up = true, .scheme = 9, .hidden = 304, .intermediate = 640, .fusion = test::kQuantisedMatmul, .expression = 2},
  };
  std::vector<test::MatmulTest> tests;
  for (const auto& counts :
       {std::vector<std::int64_t>{3, 0, 17, 1, 8}, std::vector<std::int64_t>{300, 0, 131, 1, 640}}) {
    const test::MatmulShape shape = {"claims", 9, 1088, 1200, counts, {8, 1, 5, 2, 0}};
    for (std::size_t scheme : {0u, 2u, 5u, 6u, 9u, 11u, 14u})
      tests.push_back(test::shape_test(shape, test::kMatmulSchemes[scheme], "float32"));
    for (const test::MatmulOptions& options : fused) {
      test::MatmulTest next = tests.back();
      next.config = test::matmul_config(options);
      next.kernel = options.kernel();
      tests.push_back(std::move(next));
    }
  }
  return tests;
}

}  // namespace

TEST_CASE("every twenty-fourth case of the tables") {
  std::vector<test::MatmulTest> tests;
  for (const bool up : {true, false}) {
    const test::MatmulTable table(up, {});
    for (std::size_t i = 0; i < table.size(); i += 24) tests.push_back(table.at(i));
  }
  check_all(std::move(tests));
}

// Minutes of many cores, to compile: --no-skip, shared by processes with TABLE_SHARD.
namespace {

// Of cases that gather rows of a, on this device's own tiles.
std::vector<test::MatmulTest> gathering(std::size_t step) {
  std::vector<test::MatmulTest> tests;
  const test::MatmulTable table(true, {});
  std::size_t found = 0;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (test::MatmulTest t = table.at(i); t.config->experts.gather_a == Choice::yes && found++ % step == 0)
      tests.push_back(std::move(t));
  return tests;
}

}  // namespace

TEST_CASE("every sixth of the tables' cases that gather rows") {
  std::vector<test::MatmulTest> tests = gathering(6);
  REQUIRE(tests.size() >= 10);
  check_all(std::move(tests));
}

TEST_CASE("every case of the tables" * doctest::skip()) { check_all(shard_of_tables()); }

TEST_CASE("the kernels of lesser archs, every case of the tables" * doctest::skip()) {
  check_portable(shard_of_tables());
}

// A minute, most of it to compile: --no-skip.
TEST_CASE("every case of the tables with mxfp8, also by the kernels of lesser archs" * doctest::skip()) {
  std::vector<test::MatmulTest> tests;
  for (const bool up : {true, false}) {
    const test::MatmulTable table(up, {});
    for (std::size_t i = 0; i < table.size(); ++i)
      if (test::MatmulTest t = table.at(i); t.config->quantization.scheme == Scheme::mxfp8)
        tests.push_back(std::move(t));
  }
  MESSAGE(tests.size() << " cases");
  check_all(tests);
  check_portable(std::move(tests));
}

TEST_CASE("the kernels of lesser archs, every forty-eighth case of the tables") {
  std::vector<test::MatmulTest> tests;
  for (const bool up : {true, false}) {
    const test::MatmulTable table(up, {});
    for (std::size_t i = 5; i < table.size(); i += up ? 48 : 16) tests.push_back(table.at(i));
  }
  check_portable(std::move(tests));
}

TEST_CASE("the shapes of Modular's tests") {
  std::vector<test::MatmulTest> tests = shapes(test::rowwise_shapes(), {5, 6, 3}, "bfloat16");
  append(tests, shapes(test::rowwise_shapes(), {5, 6}, "float32"));
  append(tests, shapes(test::plain_shapes(), {0, 2}, "bfloat16"));
  append(tests, shapes(test::plain_shapes(), {0}, "float32"));
  append(tests, shapes(test::block_shapes(), {9, 10, 11, 13, 14}, "bfloat16"));
  append(tests, shapes(test::block_shapes(), {9}, "float32"));
  check_all(std::move(tests));
}

TEST_CASE("weights of more than 2^31 and of more than 2^32 elements") {
  std::vector<test::MatmulTest> tests = shapes(test::vast_shapes(), {0, 5, 9, 14}, "bfloat16");
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  for (const test::MatmulTest& t : test::prepare(engine, device_arch(), std::move(tests))) check(engine, t);
}

TEST_CASE("NaN in one expert's weights or scales changes no bit of another's rows") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  for (const test::MatmulTest& t : test::prepare(engine, device_arch(), claims())) {
    CAPTURE(t.config.to_json());
    const Kernel kernel = engine.get(t.config, t.kernel);
    const auto run = [&](auto& problem) { run_on(kernel, problem); };
    for (auto spoil : {verify::MatmulSpoil::weights, verify::MatmulSpoil::scales})
      CHECK(test::nan_stays_inside(kernel, t, spoil, run) == "");
  }
}

TEST_CASE("a row has the same bits alone as in company") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  for (const test::MatmulTest& t : test::prepare(engine, device_arch(), claims())) {
    CAPTURE(t.config.to_json());
    const Kernel kernel = engine.get(t.config, t.kernel);
    const std::int64_t rows = t.matmul_case.num_rows();
    CHECK(test::rows_do_not_depend(kernel, t, {0, 2, 3, rows / 2, rows - 2, rows - 1},
                                   [&](auto& problem) { run_on(kernel, problem); }) == "");
  }
}

TEST_CASE("all candidates of a plan give the same bits") {
  test::require_device();
  const cuda::PrimaryContext context;
  if (cuda::device_info(0).major != 9) test::skip("only compute capability 9.0 has candidates");
  Engine engine = test::memory_engine();
  std::vector<std::vector<test::MatmulTest>> problems;
  std::vector<test::MatmulTest> all;
  for (const test::MatmulCandidates& problem : test::matmul_candidates())
    append(all, problems.emplace_back(test::tests_of(problem, {300, 0, 131, 1, 640, 64, 63, 193})));
  REQUIRE(test::prepare(engine, device_arch(), all).size() == all.size());
  for (const std::vector<test::MatmulTest>& tests : problems) CHECK(test::differing_candidate(engine, tests) == "");
}

namespace {

/// Groupings of the same rows over the same experts, all different.
std::vector<test::MatmulTest> groupings(const test::MatmulTest& first, std::size_t count) {
  std::vector<test::MatmulTest> all;
  const std::int64_t rows = first.matmul_case.num_rows();
  const std::size_t groups = first.matmul_case.ids.size();
  for (std::size_t i = 0; i < count; ++i) {
    test::MatmulTest next = first;
    std::int64_t left = rows;
    for (std::size_t g = 0; g < groups; ++g) {
      const auto share =
          static_cast<std::int64_t>(verify::random_below(i + 1, g, static_cast<std::uint64_t>(left) + 1));
      next.matmul_case.counts[g] = g + 1 == groups ? left : share;
      left -= next.matmul_case.counts[g];
    }
    std::rotate(next.matmul_case.ids.begin(), next.matmul_case.ids.begin() + static_cast<std::ptrdiff_t>(i % groups),
                next.matmul_case.ids.end());
    all.push_back(std::move(next));
  }
  return all;
}

}  // namespace

TEST_CASE("a thousand replays of one graph, with other groups each time") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  for (std::size_t scheme : {0u, 5u, 9u, 14u}) {
    const test::MatmulTest first = test::shape_test({"replays", 8, 528, 704, {100, 60, 30, 9, 1}, {0, 7, 3, 2, 5}},
                                                    test::kMatmulSchemes[scheme], "bfloat16");
    const Kernel kernel = engine.get(first.config, first.kernel);
    verify::GroupedMatmulProblem problem(Target::cuda, verify::matmul_spec(kernel, first.config), first.matmul_case);
    const test::DeviceSums<test::GpuText> sums(Target::cuda, sums_text(), problem);
    const std::vector<test::MatmulTest> all = groupings(first, 10);
    std::vector<std::vector<char>> want;
    for (const test::MatmulTest& t : all) {
      problem.regroup(t.matmul_case);
      problem.run(kernel);
      REQUIRE(problem.compare(sums, kBudget).value_or("") == "");
      want.push_back(problem.output());
    }
    REQUIRE(std::set<std::vector<char>>(want.begin(), want.end()).size() == want.size());
    const cuda::Stream stream;
    const cuda::Graph graph = cuda::Graph::capture(stream, [&] { kernel.run(problem.args(), stream.get()); });
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      const std::size_t at = verify::random_below(scheme + 9, i, all.size());
      problem.regroup(all[at].matmul_case);
      problem.reset();
      graph.launch(stream);
      stream.synchronize();
      wrong += problem.output() != want[at];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("no rows and no groups launch nothing; wrong arguments are refused by name") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const test::MatmulTest t = test::shape_test({"", 4, 256, 256, {8, 8}, {0, 3}}, test::kMatmulSchemes[0], "bfloat16");
  const Kernel kernel = engine.get(t.config, t.kernel);
  const verify::GroupedMatmulProblem problem(Target::cuda, verify::matmul_spec(kernel, t.config), t.matmul_case);
  const cuda::Stream stream;
  grouped_matmul::Args args{};
  kernel.run(args, stream.get());  // no rows: nothing is looked at
  args = problem.args();
  args.num_groups = 0;
  kernel.run(args, stream.get());
  stream.synchronize();
  args = problem.args();
  args.c = nullptr;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("c is null"), Error);
  args = problem.args();
  args.a = static_cast<const char*>(args.a) + 8;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("16 bytes"), Error);
  args = problem.args();
  args.num_rows = -1;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("num_rows is negative"), Error);
}
