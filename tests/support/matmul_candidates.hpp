// SPDX-License-Identifier: Apache-2.0
// Plans that grouped_matmul may choose among, forced by tune.space: all of one problem must give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/engine.hpp>
#include <moegen/plan.hpp>

#include "support/grouped_matmul_table.hpp"
#include "verify/grouped_matmul_problem.hpp"

namespace moegen::test {

/// A problem, and limits of tune.space that each leave another plan.
struct MatmulCandidates {
  std::string_view note;
  MatmulOptions options;
  std::vector<std::string_view> spaces;
};

/// Each kind of tiles by itself: the last kind whose rows a group suffice is taken, so the others ask for a million.
inline constexpr std::string_view kNarrowAlone = R"("wide_least_rows": [1000000], "tall_least_rows": [1000000])";
inline constexpr std::string_view kWideAlone = R"("wide_least_rows": [1], "tall_least_rows": [1000000])";
inline constexpr std::string_view kTallAlone = R"("tall_least_rows": [1])";

inline std::string joined_space(std::string_view kind, std::string_view more) {
  return std::string(kind) + (more.empty() ? "" : ", ") + std::string(more);
}

/// Problems of every scheme of sums and every epilogue, each with candidates of all kinds of tiles that it has.
inline const std::vector<MatmulCandidates>& matmul_candidates() {
  static const std::string narrow_16 = joined_space(kNarrowAlone, R"("narrow_max_tokens": [16])"),
                           narrow_pair = joined_space(kNarrowAlone, R"("narrow_cluster": [2], "narrow_stages": [4])"),
                           wide_pair = joined_space(kWideAlone, R"("wide_max_tokens": [128], "wide_cluster": [2])"),
                           wide_small = joined_space(kWideAlone, R"("wide_max_tokens": [64], "wide_width_step": [64],
                               "wide_raster": [2], "wide_even_tiles": [1])"),
                           wide_turn = joined_space(kWideAlone, R"("wide_dealt": [0])"),
                           tall_turn = joined_space(kTallAlone, R"("tall_dealt": [0])"),
                           tall_two = joined_space(kTallAlone, R"("tall_warpgroups": [2], "tall_raster": [2])"),
                           tall_192 = joined_space(kTallAlone, R"("tall_warpgroups": [2], "tall_weight_rows": [192])"),
                           tall_256 = joined_space(kTallAlone, R"("tall_warpgroups": [2], "tall_weight_rows": [256])"),
                           tall_pair = joined_space(kTallAlone, R"("tall_cluster": [2], "tall_even_tiles": [1])");
  static const std::vector<MatmulCandidates> all = {
      {"sums in place, bias and expression",
       {.up = false, .scheme = 0, .output = 0, .hidden = 528, .intermediate = 704, .bias = true, .expression = 1},
       {kNarrowAlone, narrow_16, narrow_pair, kWideAlone, wide_turn, wide_pair, wide_small}},
      {"sums in place, scales and activation",
       {.up = true,
        .scheme = 6,
        .hidden = 704,
        .intermediate = 528,
        .activation = 4,
        .fusion = kActivatedMatmul,
        .bias = true,
        .expression = 2},
       {kNarrowAlone, kWideAlone, wide_pair, wide_small}},
      {"promoted",
       {.up = false, .scheme = 5, .output = 0, .hidden = 528, .intermediate = 704},
       {kNarrowAlone, narrow_pair, kWideAlone, wide_small, kTallAlone, tall_two, tall_192, tall_256, tall_pair}},
      {"block128, bias and expression",
       {.up = false, .scheme = 9, .output = 0, .hidden = 576, .intermediate = 1200, .bias = true, .expression = 2},
       {kNarrowAlone, narrow_16, kTallAlone, tall_two, tall_192, tall_256, tall_pair, tall_turn}},
      {"block128 and activation",
       {.up = true,
        .scheme = 10,
        .hidden = 704,
        .intermediate = 448,
        .activation = 2,
        .fusion = kActivatedMatmul,
        .expression = 1},
       {kNarrowAlone, kTallAlone, tall_two, tall_turn}},
      {"block128, quantised",
       {.up = true, .scheme = 9, .hidden = 704, .intermediate = 384, .fusion = kQuantisedMatmul},
       {kNarrowAlone, narrow_16, kTallAlone, tall_two, tall_turn}},
      {"block128, quantised, bias and expression",
       {.up = true,
        .scheme = 11,
        .hidden = 512,
        .intermediate = 256,
        .activation = 7,
        .fusion = kQuantisedMatmul,
        .bias = true,
        .expression = 2},
       {kNarrowAlone, kTallAlone, tall_two, tall_256}},
  };
  return all;
}

/// One test a candidate, on equal inputs: rows of group g go to expert g.
inline std::vector<MatmulTest> tests_of(const MatmulCandidates& problem, const std::vector<std::int64_t>& counts) {
  std::vector<MatmulTest> tests;
  for (const std::string_view space : problem.spaces) {
    MatmulOptions options = problem.options;
    options.space = space;
    verify::GroupedMatmulCase matmul_case;
    matmul_case.label = problem.note;
    matmul_case.counts = counts;
    for (std::size_t g = 0; g < counts.size(); ++g) matmul_case.ids.push_back(static_cast<std::int32_t>(g));
    matmul_case.seed = 77;
    tests.push_back({matmul_config(options), options.kernel(), std::move(matmul_case)});
  }
  return tests;
}

/// The tiles that a launch with these rows takes: all decisions of the last entry that wants as many rows a group.
inline std::string tiles_taken(const Plan& plan, const verify::GroupedMatmulCase& matmul_case) {
  std::string taken;
  for (const EntryPlan& entry : plan.entries) {
    const std::string prefix = entry.variant + ".";
    if (plan.integer(prefix + "least_rows") * std::ssize(matmul_case.counts) > matmul_case.num_rows()) continue;
    taken = entry.variant;
    for (const Decision& decision : plan.decisions) {
      if (!decision.name.starts_with(prefix)) continue;
      if (const auto* number = std::get_if<std::int64_t>(&decision.value); number && !decision.name.ends_with("_rows"))
        taken += fmt::format(" {} {}", decision.name, *number);
    }
  }
  return taken;
}

/// Which of the candidates wrote other bytes than the first; "" if none. Fails where two take the same tiles, or the
/// first is wrong.
inline std::string differing_candidate(Engine& engine, const std::vector<MatmulTest>& tests) {
  std::vector<char> first, first_scales;
  std::set<std::string> taken;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    const MatmulTest& t = tests[i];
    const Kernel kernel = engine.get(t.config, t.kernel);
    REQUIRE_MESSAGE(taken.insert(tiles_taken(kernel.plan(), t.matmul_case)).second, t.config.to_json());
    verify::GroupedMatmulProblem problem(kernel.target(), verify::matmul_spec(kernel, t.config), t.matmul_case);
    problem.run(kernel);
    if (i == 0) {
      first = problem.output();
      first_scales = problem.output_scales();
      REQUIRE(problem.compare().value_or("") == "");
    } else if (problem.output() != first || problem.output_scales() != first_scales) {
      return t.config.to_json();
    }
  }
  return "";
}

}  // namespace moegen::test
