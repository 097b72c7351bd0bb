// SPDX-License-Identifier: Apache-2.0
// finalize on a GPU against the float64 reference: a pairwise table over shapes, top_k, dtypes, options and inputs.
#include <array>
#include <string>
#include <string_view>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/args/finalize.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "gpu/device_test.hpp"
#include "support/pairwise.hpp"
#include "verify/finalize_case.hpp"

namespace {

using namespace moegen;

// The row widths of the 17 shapes that configs/models ships.
constexpr std::array<int, 17> kWidths = {7168, 5120, 7168, 7168, 3584, 1024, 2688, 2048, 4096,
                                         2880, 2816, 5120, 7168, 4096, 6144, 2048, 4096};
constexpr std::array<std::int64_t, 6> kTokens = {0, 1, 7, 128, 4096, 16384};
constexpr std::array<std::string_view, 3> kDtypes = {"bfloat16", "float16", "float32"};
constexpr std::size_t kTopKs = 32;
constexpr std::array<std::string_view, 8> kOptions = {
    R"("residual": false)",
    R"("residual": true)",
    R"("shared": true)",
    R"("shared": true, "residual": true)",
    R"("weights_applied": true)",
    R"("bias": true)",
    R"("bias": true, "residual": true, "shared": true)",
    R"("epilogue": "clamp(value * scale + silu(bias) * 0.5, -20, 20) + tokenwise * 0.125",
       "inputs": {"scale": {"dtype": "float32", "shape": "scalar"}, "bias": {"dtype": "bfloat16", "shape": "columns"},
                  "tokenwise": {"dtype": "float16", "shape": "tokens"}})"};
enum Column { kShape, kTopK, kT, kDown, kWeight, kOutput, kActivation, kOption, kPattern, kZero };

// Rows that a case keeps on the host: with 544 cases and more, so that the table runs in a few minutes.
constexpr std::int64_t kMostHostBytes = std::int64_t{208} << 20;

std::string config_text(const test::Choice& choice) {
  const std::string zero = choice[kZero] == 1 ? R"("num_zero_experts": 7,)" : "";
  return fmt::format(
      R"({{"moegen": 1, "name": "case", "hidden": {}, "intermediate": 1024, "num_experts": 64, "top_k": {}, {}
          "router": {{"scoring": "softmax", "weights": "{}"}}, "dtypes": {{"activation": "{}", "weight": "{}"}},
          "shared_experts": {{"count": 1, "intermediate": 512, "gate": "{}"}},
          "finalize": {{"down": "{}", "output": "{}", {}}}}})",
      kWidths[choice[kShape]], choice[kTopK] + 1, zero, kDtypes[choice[kWeight]], kDtypes[choice[kActivation]],
      kDtypes[choice[kActivation]], choice[kTopK] % 2 ? "sigmoid" : "none", kDtypes[choice[kDown]],
      kDtypes[choice[kOutput]], kOptions[choice[kOption]]);
}

bool possible(const test::Choice& choice) {
  const auto pattern = verify::all_row_patterns()[choice[kPattern]];
  if (pattern == verify::RowPattern::sparse && (kTokens[choice[kT]] == 0 || kTokens[choice[kT]] > 128)) return false;
  if (choice[kOption] == kOptions.size() - 1 && kTokens[choice[kT]] > 128) return false;  // a slow reference
  const std::int64_t width = kWidths[choice[kShape]];
  const std::int64_t element = kDtypes[choice[kDown]] == "float32" ? 4 : 2;
  return kTokens[choice[kT]] * (static_cast<std::int64_t>(choice[kTopK]) + 5) * width * element <= kMostHostBytes;
}

std::vector<test::Choice> table() {
  return test::pairwise({kWidths.size(), kTopKs, kTokens.size(), kDtypes.size(), kDtypes.size(), kDtypes.size(), 2,
                         kOptions.size(), verify::all_row_patterns().size(), 2},
                        possible);
}

}  // namespace

TEST_CASE("every config of the table is legal") {
  for (const test::Choice& choice : table()) CHECK_NOTHROW(Config::from_json(config_text(choice)));
}

TEST_CASE("finalize stays within its bound of the reference on every pair of options") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const auto cases = table();
  REQUIRE(cases.size() >= kWidths.size() * kTopKs);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Config config = Config::from_json(config_text(cases[i]));
    const verify::FinalizeCase c{kTokens[cases[i][kT]], verify::all_row_patterns()[cases[i][kPattern]], 1000 + 50 * i};
    CAPTURE(config.to_json());
    const auto wrong = verify::run_case(engine.get(config, "finalize"), config, c);
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
  MESSAGE(cases.size() << " cases");
}

TEST_CASE("every triple of dtypes") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  for (std::size_t i = 0; i < 27; ++i) {
    const test::Choice choice = {9, 3, 3, i % 3, i / 3 % 3, i / 9, 0, 0, 0, 0};
    const Config config = Config::from_json(config_text(choice));
    CAPTURE(config.to_json());
    const auto wrong =
        verify::run_case(engine.get(config, "finalize"), config, {129, verify::RowPattern::dropped, 77 + i});
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
}

TEST_CASE("wrong arguments are refused by name") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const Config config = Config::from_json(config_text({9, 3, 3, 0, 2, 0, 0, 1, 0, 0}));
  const Kernel kernel = engine.get(config, "finalize");
  const cuda::Stream stream;
  const cuda::DeviceBuffer memory(1 << 20);
  finalize::Args args{};
  args.num_tokens = 0;
  kernel.run(args, stream.get());  // no work: nothing is looked at, nothing is launched
  args.num_tokens = 1;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("output is null"), Error);
  args.output = memory.data();
  args.down = memory.data<char>() + 8;
  args.residual = memory.data();
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("not aligned to 16 bytes"), Error);
}
