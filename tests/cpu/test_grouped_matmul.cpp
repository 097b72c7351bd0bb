// SPDX-License-Identifier: Apache-2.0
// grouped_matmul on the CPU target: a few kernels on every pattern of groups, and the tables of tests/gpu with narrow
// rows, with every check on. Compiling a kernel takes seconds and running it on such rows a twentieth of one.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "cpu/schedules.hpp"
#include "reference/number.hpp"
#include "reference/quantize.hpp"
#include "support/cpu_text.hpp"
#include "support/device_sums.hpp"
#include "support/grouped_matmul_table.hpp"
#include "support/matmul_candidates.hpp"
#include "support/matmul_claims.hpp"
#include "support/matmul_prepare.hpp"
#include "support/matmul_spec.hpp"
#include "support/shard.hpp"
#include "verify/grouped_matmul_problem.hpp"

using namespace moegen;

namespace {

constexpr std::array<const char*, 2> kArchs = {"sm_90a", "sm_80"};

// K and N with tails of every kind: 448 and 144 end in the middle of a block, 80 and 176 in the middle of a swizzled
// row, 64 and 80 are shorter than a block.
test::MatmulLimits narrow() {
  return {
      .hidden = {192, 80, 176, 448}, .intermediate = {64, 176, 128, 144}, .rows = {0, 1, 7, 33}, .experts = {1, 4, 9}};
}

const test::MatmulTable& table(bool up) {
  static const test::MatmulTable up_table(true, narrow()), down_table(false, narrow());
  return up ? up_table : down_table;
}

// Small tiles: a few rows then make many of them, and the kernel has few loops to compile.
constexpr const char* kSmallTiles =
    R"("narrow_max_tokens": [16], "wide_max_tokens": [64], "wide_width_step": [64], "tall_warpgroups": [2],
       "tall_least_rows": [41])";

// Kernels that together have most of what the tables have: first the four that CI runs.
std::vector<test::MatmulOptions> samples(bool all) {
  std::vector<test::MatmulOptions> options = {
      {.up = true,
       .scheme = 10,
       .hidden = 320,
       .intermediate = 128,
       .activation = 2,
       .fusion = test::kQuantisedMatmul,
       .bias = true},
      {.up = false, .scheme = 11, .output = 2, .hidden = 144, .intermediate = 448, .expression = 2},
      {.up = true, .scheme = 6, .hidden = 80, .intermediate = 64, .activation = 9, .gather = true},
      {.up = true,
       .scheme = 14,
       .hidden = 432,
       .intermediate = 144,
       .activation = 1,
       .fusion = test::kQuantisedMatmul,
       .bias = true,
       .expression = 1},
      {.up = true,
       .scheme = 9,
       .hidden = 448,
       .intermediate = 128,
       .activation = 2,
       .fusion = test::kQuantisedMatmul,
       .gather = true},
      {.up = true, .scheme = 5, .hidden = 448, .intermediate = 80, .activation = 0, .gather = true, .bias = true},
      {.up = false, .scheme = 0, .output = 0, .hidden = 176, .intermediate = 80, .bias = true, .expression = 1},
      {.up = true, .scheme = 6, .hidden = 208, .intermediate = 80, .activation = 9, .fusion = test::kActivatedMatmul},
      {.up = true, .scheme = 2, .hidden = 192, .intermediate = 176, .activation = 4, .fusion = test::kActivatedMatmul},
      {.up = true,
       .scheme = 10,
       .hidden = 320,
       .intermediate = 144,
       .activation = 3,
       .fusion = test::kActivatedMatmul,
       .gather = true,
       .bias = true},
      {.up = false, .scheme = 3, .output = 1, .hidden = 80, .intermediate = 304},
      {.up = true,
       .scheme = 15,
       .hidden = 256,
       .intermediate = 176,
       .activation = 10,
       .fusion = test::kQuantisedMatmul,
       .gather = true},
      {.up = false, .scheme = 14, .output = 2, .hidden = 144, .intermediate = 448, .expression = 2},
  };
  if (!all) options.resize(4);
  for (test::MatmulOptions& sample : options) sample.space = kSmallTiles;
  return options;
}

test::MatmulTest plain_case(const test::MatmulOptions& options, verify::GroupPattern pattern, std::int64_t rows,
                            std::uint64_t seed) {
  Config config = test::matmul_config(options);
  auto matmul_case = verify::make_matmul_case(config.fields(), pattern, rows, seed);
  return {std::move(config), options.kernel(), std::move(matmul_case)};
}

// One engine an arch, so that test cases share what is compiled.
Engine& engine_of(const char* arch) {
  static Engine hopper = test::checked_engine(kArchs[0]), portable = test::checked_engine(kArchs[1]);
  return arch == kArchs[0] ? hopper : portable;
}

// One case of each sample that this version has on `arch`, compiled.
std::vector<test::MatmulTest> prepared(const char* arch, verify::GroupPattern pattern, std::int64_t rows, bool all) {
  std::vector<test::MatmulTest> tests;
  for (const test::MatmulOptions& options : samples(all)) tests.push_back(plain_case(options, pattern, rows, 3));
  return test::prepare(engine_of(arch), find_arch(arch), std::move(tests));
}

void check(Engine& engine, const test::MatmulTest& t, const std::vector<CpuOptions>& schedules) {
  CAPTURE(t.config.to_json());
  CAPTURE(t.kernel);
  CAPTURE(t.matmul_case.name());
  const Kernel kernel = engine.get(t.config, t.kernel);
  verify::GroupedMatmulProblem problem(Target::cpu, verify::matmul_spec(kernel, t.config), t.matmul_case);
  for (const CpuOptions& schedule : schedules) {
    CAPTURE(schedule.seed);
    try {
      problem.run(with_schedule(kernel, schedule));
      const auto wrong = problem.compare();
      CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
    } catch (const KernelError& error) {
      FAIL_CHECK(error.text());
    }
  }
}

void run_on(const Kernel& kernel, verify::GroupedMatmulProblem& problem) { problem.run(kernel); }

void check_every_pattern(const char* arch, bool all) {
  std::uint64_t seed = 0;
  for (const test::MatmulTest& t : prepared(arch, verify::GroupPattern::even, 1, all))
    for (const std::int64_t rows : all ? std::vector<std::int64_t>{0, 1, 33, 70} : std::vector<std::int64_t>{0, 33})
      for (const verify::GroupPattern pattern : verify::all_group_patterns()) {
        test::MatmulTest next = t;
        next.matmul_case = verify::make_matmul_case(t.config.fields(), pattern, rows, ++seed);
        check(engine_of(arch), next, {test::all_schedules()[seed % 9]});
      }
}

// Rows enough for the tiles of large groups; alone each of them is in another kind of tile.
test::MatmulTest many_rows(test::MatmulTest t) {
  t.matmul_case.label = "many rows";
  t.matmul_case.counts = {100, 0, 60};
  t.matmul_case.ids = {7, 1, 2};
  return t;
}

void check_claims(const char* arch, bool all) {
  for (const test::MatmulTest& t : prepared(arch, verify::GroupPattern::ragged, 70, all)) {
    CAPTURE(t.config.to_json());
    const Kernel kernel = engine_of(arch).get(t.config, t.kernel);
    const auto run = [&](auto& problem) { run_on(kernel, problem); };
    for (auto spoil : {verify::MatmulSpoil::weights, verify::MatmulSpoil::scales})
      CHECK(test::nan_stays_inside(kernel, t, spoil, run) == "");
    CHECK(test::rows_do_not_depend(kernel, t, {0, 13, 14, 69}, run) == "");
    CHECK(test::rows_do_not_depend(kernel, many_rows(t), {0, 99, 129, 159}, run) == "");
  }
}

/// What the up projection of `options` leaves, with the same inputs whatever is fused.
struct UpOutput {
  std::vector<char> c, c_scales;
  std::int64_t rows = 0, columns = 0;
};
UpOutput up_output(const char* arch, test::MatmulOptions options, test::MatmulFusion fusion) {
  options.fusion = fusion;
  const test::MatmulTest t = plain_case(options, verify::GroupPattern::ragged, 33, 3);
  const Kernel kernel = engine_of(arch).get(t.config, t.kernel);
  const verify::GroupedMatmulProblem problem(Target::cpu, verify::matmul_spec(kernel, t.config), t.matmul_case);
  problem.run(kernel);
  return {problem.output(), problem.output_scales(), t.matmul_case.num_rows(), problem.spec().output_columns};
}

/// Codes and scales of mxfp8 of `floats`, by the definition.
UpOutput quantised(const UpOutput& floats, double floor) {
  UpOutput codes = {std::vector<char>(floats.c.size() / 4), {}, floats.rows, floats.columns};
  for (std::int64_t row = 0; row < floats.rows; ++row)
    for (std::int64_t first = 0; first < floats.columns; first += 32) {
      const std::int64_t end = std::min(first + 32, floats.columns);
      const auto at = [&](std::int64_t column) { return static_cast<std::size_t>(row * floats.columns + column); };
      const auto value = [&](std::int64_t column) {
        return reference::load(Dtype::float32, floats.c.data(), at(column));
      };
      double most = 0;
      for (std::int64_t i = first; i < end; ++i) most = std::max(most, std::abs(value(i)));
      const double scale = reference::e4m3_scale(most, floor, Dtype::float8_e8m0fnu);
      codes.c_scales.push_back(0);
      reference::store(Dtype::float8_e8m0fnu, &codes.c_scales.back(), 0, scale);
      for (std::int64_t i = first; i < end; ++i)
        reference::store(Dtype::float8_e4m3fn, codes.c.data(), at(i), reference::e4m3_value(value(i), scale));
    }
  return codes;
}

void check_codes(const char* arch) {
  const test::MatmulOptions options = {
      .up = true, .scheme = 15, .hidden = 208, .intermediate = 176, .bias = true, .space = kSmallTiles};
  const UpOutput floats = up_output(arch, options, test::kActivatedMatmul);
  const UpOutput got = up_output(arch, options, test::kQuantisedMatmul);
  const UpOutput want = quantised(floats, test::matmul_config(options)->quantization.floor);
  REQUIRE(got.c.size() == want.c.size());
  REQUIRE(std::set<char>(want.c_scales.begin(), want.c_scales.end()).size() > 1);
  CHECK(got.c == want.c);
  CHECK(got.c_scales == want.c_scales);
}

void check_table(const char* arch, std::size_t step) {
  std::vector<test::MatmulTest> tests;
  const test::Shard shard = test::table_shard();
  for (const bool up : {true, false})
    for (std::size_t i = shard.first * step; i < table(up).size(); i += shard.step * step)
      tests.push_back(table(up).at(i));
  const std::size_t asked = tests.size();
  tests = test::prepare(engine_of(arch), find_arch(arch), std::move(tests));
  for (const test::MatmulTest& t : tests) check(engine_of(arch), t, test::all_schedules());
  MESSAGE(arch << ": " << tests.size() << " of " << asked << " cases; the rest this version refuses");
}

}  // namespace

TEST_CASE("the reference that runs on a GPU gives the host's sums") {
  const test::CpuText text(test::sums_text(), "matmul_sums.cu", find_arch("sm_90a"), {test::kSumsEntry}, true);
  for (std::size_t scheme : {0u, 2u, 3u, 6u, 9u, 10u, 12u, 13u, 14u}) {
    const test::MatmulTest t =
        test::shape_test({"", 3, 80, 176, {3, 0, 65, 1}, {2, 1, 0, -1}}, test::kMatmulSchemes[scheme], "float32");
    const verify::GroupedMatmulProblem problem(Target::cpu, test::spec_of(t.config, false), t.matmul_case);
    verify::SumQuery query;
    for (std::int64_t row = 0; row < 69; ++row)
      query.rows.push_back({row == 2 ? -1 : row, row < 3 ? 2 : row < 68 ? 0 : -1});
    for (std::int64_t column : {0, 79, 3, 64, 33}) query.columns.push_back(column);
    const auto want = verify::host_sums(problem.spec(), problem.tensors())(query);
    const auto got = test::DeviceSums(Target::cpu, text, problem)(query);
    REQUIRE(got.size() == want.size());
    double most = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      CHECK(got[i].value == doctest::Approx(want[i].value).epsilon(1e-9));
      CHECK(got[i].error == doctest::Approx(want[i].error).epsilon(1e-6));
      most = std::max(most, std::abs(want[i].value));
    }
    CHECK(most > 0.1);
  }
}

TEST_CASE("grouped_matmul is right and clean on every pattern of groups") { check_every_pattern(kArchs[0], false); }

// More groups than a warp has lanes, some of them empty or of no expert, and more clusters than tiles are dealt to.
TEST_CASE("tiles are dealt to any number of clusters") {
  const test::MatmulOptions kernels[] = {
      {.up = false,
       .scheme = 9,
       .hidden = 656,
       .intermediate = 80,
       .space = R"("tall_least_rows": [1], "tall_warpgroups": [2], "tall_raster": [4])"},
      {.up = false,
       .scheme = 0,
       .hidden = 656,
       .intermediate = 80,
       .space = R"("wide_least_rows": [1], "wide_max_tokens": [64], "wide_width_step": [64], "wide_cluster": [2])"}};
  for (const test::MatmulOptions& options : kernels) {
    test::MatmulTest t = plain_case(options, verify::GroupPattern::ragged, 1, 5);
    t.matmul_case.counts.clear();
    t.matmul_case.ids.clear();
    for (std::int64_t g = 0; g < 45; ++g) {
      t.matmul_case.counts.push_back(g % 7 == 2 ? 0 : 1 + g * g * 11 % 90);
      t.matmul_case.ids.push_back(g % 11 == 3 ? -1 : static_cast<std::int32_t>(g % 4));
    }
    for (const int num_sms : options.scheme == 0 ? std::vector<int>{14} : std::vector<int>{2, 14, 170}) {
      CAPTURE(num_sms);
      Engine engine = test::checked_engine(kArchs[0], num_sms);
      const Kernel kernel = engine.get(t.config, t.kernel);
      REQUIRE(kernel.plan().boolean(kernel.plan().entries.back().variant + ".dealt"));
      check(engine, t, {test::all_schedules()[num_sms == 14 ? 6 : 0]});
    }
  }
}

TEST_CASE("NaN stays inside its expert, and a row has the same bits alone") { check_claims(kArchs[0], false); }

TEST_CASE("codes of a fused quantiser are those of the floats that the same matmul stores") { check_codes(kArchs[1]); }

TEST_CASE("the same of tensor copies and wgmma" * doctest::skip()) { check_codes(kArchs[0]); }

// A minute: --no-skip.
TEST_CASE("the same of more kernels and on lesser archs" * doctest::skip()) {
  for (const char* arch : kArchs) {
    check_every_pattern(arch, true);
    check_claims(arch, true);
  }
}

// Minutes, nearly all of them to compile: --no-skip.
TEST_CASE("all candidates of a plan give the same bits" * doctest::skip()) {
  Engine& engine = engine_of(kArchs[0]);
  for (const test::MatmulCandidates& problem : test::matmul_candidates()) {
    test::MatmulCandidates small = problem;
    const bool up = small.options.up;
    (up ? small.options.hidden : small.options.intermediate) = 192;
    (up ? small.options.intermediate : small.options.hidden) = 256;
    const std::vector<test::MatmulTest> tests = test::tests_of(small, {70, 0, 33, 1, 8});
    REQUIRE(test::prepare(engine, find_arch(kArchs[0]), tests).size() == tests.size());
    CHECK(test::differing_candidate(engine, tests) == "");
  }
}

// Minutes, most of them to compile: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every twentieth case of the tables under every schedule" * doctest::skip()) {
  for (const char* arch : kArchs) check_table(arch, 20);
}

// An hour and more on one core: --no-skip with -tc, shared by processes with TABLE_SHARD.
TEST_CASE("every case of the tables under every schedule" * doctest::skip()) {
  for (const char* arch : kArchs) check_table(arch, 1);
}

// Modular's shapes, those of up to 2^26 products: some seconds each.
TEST_CASE("the shapes of Modular's tests that are small" * doctest::skip()) {
  const auto run = [&](const std::vector<test::MatmulShape>& shapes, std::size_t scheme, const char* output) {
    for (const test::MatmulShape& shape : shapes)
      if (shape.products() <= std::int64_t{1} << 26)
        check(engine_of(kArchs[0]), test::shape_test(shape, test::kMatmulSchemes[scheme], output),
              test::two_schedules(scheme));
  };
  run(test::rowwise_shapes(), 5, "bfloat16");
  run(test::rowwise_shapes(), 6, "float32");
  run(test::plain_shapes(), 0, "bfloat16");
  run(test::plain_shapes(), 2, "float32");
  run(test::block_shapes(), 9, "bfloat16");
  run(test::block_shapes(), 11, "float32");
}
