// SPDX-License-Identifier: Apache-2.0
// grouped_matmul with one edit of its templates each: the checks of the CPU target find it, or the comparison with the
// reference does. An edit takes seconds to compile, so CI runs the first of each kind and --no-skip all of them (four
// minutes on two cores).
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/engine.hpp>

#include "support/edited_templates.hpp"
#include "support/grouped_matmul_table.hpp"
#include "verify/grouped_matmul_problem.hpp"

namespace {

using namespace moegen;

/// Which rows and kernel an edit is tried on.
enum class Rows {
  few,
  expressed,   ///< few, with an expression that reads inputs of each row and column
  many,        ///< in each group: the tiles that store whole boxes of rows
  quantised,   ///< many, of the up projection with gate and up, whose rows are quantised
  many_deals,  ///< of each block: its queue comes round again
};

/// `wrong` in place of `right` in a template, under one of the schemes of kMatmulSchemes.
struct Edit {
  std::string_view name, file, right, wrong;
  std::size_t scheme = 0;
  /// What the checks must find; nothing: the result must be wrong.
  std::optional<CpuFinding> finding = {};
  Rows rows = Rows::few;
  bool gather = false;  ///< rows of a, of an up projection
  const char* arch = "sm_90a";
};

constexpr std::size_t kBf16 = 0, kRowwise = 5, kBlocks = 9, kMx = 14;

// ---- the pipeline ----

// A missing wgmma_fence is not among them: the model has no registers that a product could find unfinished.

const std::vector<Edit>& pipeline_edits() {
  static const std::vector<Edit> edits = {
      {.name = "a stage is given back while it is multiplied",
       .file = "grouped_matmul/sum_in_place.cuh",
       .right = "    wgmma_wait<1>();\n    if (block > 0) release_stage(shared, previous);\n",
       .wrong = "    if (block > 0) release_stage(shared, previous);\n    wgmma_wait<1>();\n",
       .finding = CpuFinding::race_shared},
      {.name = "tokens' bytes are not expected",
       .file = "grouped_matmul/load.cuh",
       .right = "Layout<P, T>::weight_bytes + width * kSliceBytes",
       .wrong = "Layout<P, T>::weight_bytes",
       .finding = CpuFinding::race_shared},
      {.name = "the loaders wait for the wrong phase",
       .file = "grouped_matmul/load.cuh",
       .right = "mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);",
       .wrong = "mbarrier_wait(shared.empty(ring.stage), ring.parity);",
       .finding = CpuFinding::deadlock},
      {.name = "the loaders do not wait",
       .file = "grouped_matmul/load.cuh",
       .right = "    mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);\n",
       .wrong = "",
       .finding = CpuFinding::race_shared},
      {.name = "no barrier after the barriers are made",
       .file = "grouped_matmul/kernel.cuh",
       .right = "  } else {\n    block_sync();\n  }\n",
       .wrong = "  }\n",
       .finding = CpuFinding::misuse},
      {.name = "sums are used before the products are done",
       .file = "grouped_matmul/sum_in_place.cuh",
       .right = "  wgmma_wait<0>();\n",
       .wrong = "",
       .finding = CpuFinding::misuse},
      {.name = "rows leave before all of them are staged",
       .file = "grouped_matmul/store_tokens_n.cuh",
       .right = "  staging.sync();\n  if (T::store_rows > 0 && rows",
       .wrong = "  if (T::store_rows > 0 && rows",
       .finding = CpuFinding::race_shared},
      {.name = "boxes leave before all of their rows are staged",
       .file = "grouped_matmul/store_tokens_n.cuh",
       .right = "  staging.sync();\n  if (T::store_rows > 0 && rows",
       .wrong = "  if (T::store_rows > 0 && rows",
       .finding = CpuFinding::race_shared,
       .rows = Rows::many},
      {.name = "boxes of a warp leave before all of their rows are staged",
       .file = "grouped_matmul/store.cuh",
       .right = "  if (box) fence_proxy_async();\n  warp_sync();\n",
       .wrong = "  if (box) fence_proxy_async();\n",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared,
       .rows = Rows::many},
      {.name = "the staging is written while a box is still read",
       .file = "grouped_matmul/store.cuh",
       .right = "    if (issuer) bulk_wait_read<Pending>();\n",
       .wrong = "",
       .finding = CpuFinding::race_shared,
       .rows = Rows::many},
      {.name = "a panel is written while its box is still read",
       .file = "grouped_matmul/store.cuh",
       .right = "Panel == 0 ? 0 : T::staging_panels - 1>",
       .wrong = "Panel == 0 ? 1 : T::staging_panels>",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared,
       .rows = Rows::many},
      {.name = "factors are written where they are still read",
       .file = "grouped_matmul/sum_block128.cuh",
       .right = "warp_sync();  // all lanes have read their factors",
       .wrong = "",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared},
  };
  return edits;
}

// ---- the pipeline of gathered rows ----

const std::vector<Edit>& gathering_edits() {
  static const std::vector<Edit> edits = {
      {.name = "gathered tokens are multiplied without a fence between proxies",
       .file = "grouped_matmul/multiply.cuh",
       .right = "  if constexpr (P::gather_a) fence_proxy_async();",
       .wrong = "",
       .finding = CpuFinding::misuse,
       .gather = true},
      {.name = "gathered tokens do not arrive",
       .file = "grouped_matmul/gather.cuh",
       .right = "  copy_arrive(shared.full(ring.stage));\n",
       .wrong = "",
       .finding = CpuFinding::deadlock,
       .gather = true},
      {.name = "gathered tokens arrive before they are there",
       .file = "grouped_matmul/gather.cuh",
       .right = "  copy_arrive(shared.full(ring.stage));\n",
       .wrong = "  mbarrier_arrive(shared.full(ring.stage));\n",
       .finding = CpuFinding::race_shared,
       .gather = true},
      {.name = "tokens are gathered into a stage that is still multiplied",
       .file = "grouped_matmul/gather.cuh",
       .right = "  mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);\n",
       .wrong = "",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared,
       .gather = true},
      {.name = "scales of gathered tokens do not arrive",
       .file = "grouped_matmul/gather_block128.cuh",
       .right = "  if (lane_index() == 0) mbarrier_arrive(shared.full(at));\n}\n\n/// Stages that carry",
       .wrong = "}\n\n/// Stages that carry",
       .scheme = kBlocks,
       .finding = CpuFinding::deadlock,
       .gather = true},
  };
  return edits;
}

// ---- the numbers ----

const std::vector<Edit>& number_edits() {
  static const std::vector<Edit> edits = {
      {.name = "another swizzle than the copies'",
       .file = "grouped_matmul/multiply.cuh",
       .right = "Swizzle::span_128",
       .wrong = "Swizzle::span_64"},
      {.name = "a tile has one row more than is left of its group",
       .file = "grouped_matmul/tile.cuh",
       .right = "min_of(group.rows - start, step)",
       .wrong = "min_of(group.rows - start + 1, step)"},
      {.name = "the last slice of K is left out",
       .file = "grouped_matmul/sum_in_place.cuh",
       .right = "multiply_stage<P, T, N>(first, ring.stage, block > 0, sum);",
       .wrong = "if (block + 1 < P::depth_blocks) multiply_stage<P, T, N>(first, ring.stage, block > 0, sum);"},
      {.name = "the number of the group for its expert",
       .file = "grouped_matmul/tile.cuh",
       .right = "rank, args.expert_ids[index]};",
       .wrong = "rank, args.expert_ids[index] < 0 ? -1 : static_cast<int32_t>(index % 9)};"},
      {.name = "a neighbour's scale of a",
       .file = "grouped_matmul/finish_tokens_n.cuh",
       .right = "token_scale<P>(args, tile, i * kWarpSize + lane_index())",
       .wrong = "token_scale<P>(args, tile, i * kWarpSize + (lane_index() ^ 1))",
       .scheme = kRowwise},
      {.name = "the scales of the block before",
       .file = "grouped_matmul/sum_block128.cuh",
       .right = "if (first + k < blocks) bring_stage(shared, ring, now, warp, k);",
       .wrong = "if (first + k < blocks) bring_stage(shared, ring, now, warp, k < 1 ? 0 : k - 1);",
       .scheme = kBlocks},
      {.name = "gathered pieces lie in no swizzle",
       .file = "grouped_matmul/gather.cuh",
       .right = "(lane_index() % kPieces ^ row % 8)",
       .wrong = "(lane_index() % kPieces)",
       .gather = true},
      {.name = "pairs for tokens",
       .file = "grouped_matmul/gather.cuh",
       .right = "pair_[i] == kNone ? kNone : pair_[i] / P::num_slots",
       .wrong = "pair_[i] == kNone ? kNone : pair_[i] / P::num_slots == 0 ? 0 : pair_[i] / P::num_slots - 1",
       .gather = true},
      {.name = "places of no token get the first one",
       .file = "grouped_matmul/gather.cuh",
       .right = "const bool there = inside && from != kNone;",
       .wrong = "const bool there = inside;",
       .gather = true},
      {.name = "what lies past the end of K is read",
       .file = "grouped_matmul/gather.cuh",
       .right = "offset < kRowBytes;",
       .wrong = "offset < kRowBytes + 16;",
       .gather = true},
      {.name = "scales of the rows of c for those of a",
       .file = "grouped_matmul/sum_block128.cuh",
       .right = "const uint32_t row = gathered.rows.row(i);",
       .wrong = "const uint32_t row = gathered.rows.row(i) == kNone ? kNone : gathered.rows.row(i) ^ 1;",
       .scheme = kBlocks,
       .gather = true},
  };
  return edits;
}

// ---- what leaves ----

const std::vector<Edit>& stored_edits() {
  static const std::vector<Edit> edits = {
      {.name = "columns past the last are stored, too",
       .file = "grouped_matmul/store.cuh",
       .right = "      if (column + mine >= P::output_columns) continue;\n",
       .wrong = ""},
      {.name = "a box for fewer rows than it has",
       .file = "grouped_matmul/store_tokens_n.cuh",
       .right = "rows == T::store_rows",
       .wrong = "rows > 0",
       .rows = Rows::many},
      {.name = "the last part of a tile of whole boxes does not leave",
       .file = "grouped_matmul/store_tokens_n.cuh",
       .right = "const uint32_t row = (tile.rows - 1) / kPartRows<T> * kPartRows<T>;",
       .wrong = "const uint32_t row = tile.rows / kPartRows<T> * kPartRows<T>;",
       .rows = Rows::many_deals},
      {.name = "parts before the last do not leave",
       .file = "grouped_matmul/store_tokens_n.cuh",
       .right = "    send_part(args, staging, finish.tile, Row, kRows);\n",
       .wrong = "",
       .rows = Rows::many},
      {.name = "an expression reads rows past the last",
       .file = "grouped_matmul/finish.cuh",
       .right = "min_of(token, tile.rows - 1)",
       .wrong = "token",
       .finding = CpuFinding::out_of_bounds,
       .rows = Rows::expressed},
      {.name = "an expression reads the row before",
       .file = "grouped_matmul/finish.cuh",
       .right = "min_of(token, tile.rows - 1)",
       .wrong = "min_of(token, tile.rows > 1 ? tile.rows - 2 : 0)",
       .rows = Rows::expressed},
      {.name = "a warp's box for fewer rows than it has",
       .file = "grouped_matmul/store.cuh",
       .right = "rows == kWarpRows;",
       .wrong = "rows > 0;",
       .scheme = kBlocks,
       .rows = Rows::many},
  };
  return edits;
}

// ---- mxfp8 ----

const std::vector<Edit>& mx_edits() {
  static const std::vector<Edit> edits = {
      {.name = "scales of mxfp8 are written where they are still read",
       .file = "grouped_matmul/sum_mxfp8.cuh",
       .right = "warp_sync();  // all lanes have read their scales",
       .wrong = "",
       .scheme = kMx,
       .finding = CpuFinding::race_shared},
      {.name = "portable scales are written where they are still read",
       .file = "grouped_matmul/portable_mxfp8.cuh",
       .right = "line.store(free, codes);",
       .wrong = "line.store(shared + slice % T::stages * Layout::stage_bytes, codes);",
       .scheme = kMx,
       .finding = CpuFinding::race_shared,
       .arch = "sm_89"},
      {.name = "the scales of another 32 of K",
       .file = "grouped_matmul/mx_scales.cuh",
       .right = "scales.of_tokens(step) + lane_index()",
       .wrong = "scales.of_tokens(step ^ 1) + lane_index()",
       .scheme = kMx},
      {.name = "the scale of the row of weights 8 before",
       .file = "grouped_matmul/mx_scales.cuh",
       .right = "lower = scales.of_weights(row + 8)[step]",
       .wrong = "lower = scales.of_weights(row)[step]",
       .scheme = kMx},
      {.name = "the last 16 of K have no scale",
       .file = "grouped_matmul/mx_scales.cuh",
       .right = "if (at < kScales) codes",
       .wrong = "if (at < P::depth / kMxDepth) codes",
       .scheme = kMx},
      {.name = "rows of scales of whole slices",
       .file = "grouped_matmul/mx_scales.cuh",
       .right = "constexpr uint64_t kScales = ceil_div<uint32_t>(P::depth, kMxDepth);",
       .wrong = "constexpr uint64_t kScales = kMxSteps * P::depth_blocks;",
       .scheme = kMx},
  };
  return edits;
}

// ---- tiles that are dealt ----

const std::vector<Edit>& deal_edits() {
  static const std::vector<Edit> edits = {
      {.name = "a deal takes the place of one that is still to be read",
       .file = "grouped_matmul/deal.cuh",
       .right = "    mbarrier_wait(shared_.taken(ring_.place()), ring_.parity() ^ 1);\n",
       .wrong = "",
       .finding = CpuFinding::race_shared,
       .rows = Rows::many_deals},
      {.name = "a deal is read before it is there",
       .file = "grouped_matmul/deal.cuh",
       .right = "    if (joined == 0) mbarrier_wait(shared_.dealt(ring.place()), ring.parity());\n",
       .wrong = "",
       .finding = CpuFinding::unwritten_shared,
       .rows = Rows::many_deals},
      {.name = "warps that bring scales are not waited for",
       .file = "grouped_matmul/pipeline.cuh",
       .right = "mbarrier_init(shared.taken(place), 1 + T::scale_warps);",
       .wrong = "mbarrier_init(shared.taken(place), 1);",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared,
       .rows = Rows::many_deals},
      {.name = "a list is read before it is complete",
       .file = "grouped_matmul/deal.cuh",
       .right = "    warp_sync();  // the list is complete\n",
       .wrong = "",
       .finding = CpuFinding::race_shared,
       .rows = Rows::many_deals},
      {.name = "rows of groups are read before they are there",
       .file = "grouped_matmul/deal.cuh",
       .right = "next_group_ + lane_index()).rows;\n    warp_sync();\n",
       .wrong = "next_group_ + lane_index()).rows;\n",
       .finding = CpuFinding::race_shared,
       .rows = Rows::many_deals},
      {.name = "clusters of a list that is served again take the first tiles again",
       .file = "grouped_matmul/deal.cuh",
       .right = "if (lane_index() == time) length_ = 0;",
       .wrong = "if (lane_index() == time) length_ = length_ > 3 ? 1 : 0;",
       .rows = Rows::many_deals},
      {.name = "a slab's quotient that is 1 too small stays so",
       .file = "grouped_matmul/tile.cuh",
       .right = "if (value >= places) ++quotient, value -= places;",
       .wrong = "",
       .rows = Rows::many_deals},
      {.name = "the last slab is as wide as the others",
       .file = "grouped_matmul/tile.cuh",
       .right = "slab == kUnits<P, T> / T::raster)",
       .wrong = "slab == kUnits<P, T>)",
       .rows = Rows::many_deals},
      {.name = "the group behind the one whose tiles are dealt",
       .file = "grouped_matmul/deal.cuh",
       .right = "push({next_group_ - 1, at.tile",
       .wrong = "push({next_group_ - (next_group_ > 1 ? 2 : 1), at.tile",
       .rows = Rows::many_deals},
  };
  return edits;
}

// ---- joined tiles, whose rows are quantised ----

const std::vector<Edit>& joined_edits() {
  static const std::vector<Edit> edits = {
      {.name = "a stage is given back while lanes read its scales",
       .file = "grouped_matmul/sum_block128.cuh",
       .right = "        warp_sync();  // all lanes have read theirs before one gives the stage back\n",
       .wrong = "",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared,
       .rows = Rows::quantised},
      {.name = "codes are staged where another lane's values are",
       .file = "grouped_matmul/quantize_tokens_m.cuh",
       .right = "    warp_sync();  // codes lie where another lane's values were\n",
       .wrong = "",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared,
       .rows = Rows::quantised},
      {.name = "values are parked where a box is still read",
       .file = "grouped_matmul/quantize_tokens_m.cuh",
       .right = "  wait_for_boxes<T, 0>(lane_index() == 0);\n",
       .wrong = "",
       .scheme = kBlocks,
       .finding = CpuFinding::race_shared,
       .rows = Rows::quantised},
      {.name = "a token's values with those of another",
       .file = "grouped_matmul/quantize_tokens_m.cuh",
       .right = "parking.get(half, value);",
       .wrong = "parking.get(half ^ 1, value);",
       .scheme = kBlocks,
       .rows = Rows::quantised},
      {.name = "half a group and the half of another",
       .file = "grouped_matmul/deal.cuh",
       .right = "deal.unit + joined",
       .wrong = "deal.unit + 1 - joined",
       .scheme = kBlocks,
       .rows = Rows::quantised},
      {.name = "the scale of another group",
       .file = "grouped_matmul/quantize_tokens_m.cuh",
       .right = "group = finish.tile.unit / T::joined_tiles;",
       .wrong = "group = finish.tile.unit / T::joined_tiles ^ 1;",
       .scheme = kBlocks,
       .rows = Rows::quantised},
  };
  return edits;
}

std::vector<CpuOptions> schedules() {
  std::vector<CpuOptions> all;
  for (const AsyncTiming timing : {AsyncTiming::eager, AsyncTiming::late, AsyncTiming::random})
    for (std::uint64_t seed = 0; seed < 2; ++seed)
      all.push_back({.schedule = seed == 0 ? Schedule::fair : Schedule::chaos,
                     .async_timing = timing,
                     .seed = seed + 1,
                     .check = true});
  return all;
}

Engine make_engine(const std::filesystem::path& directory, const char* arch) {
  EngineOptions options;
  options.target = Target::cpu;
  options.cpu.check = true;
  options.cpu.arch = arch;
  options.cpu.num_sms = 4;  // several tiles a block, so that stages come round again
  options.template_dir = directory;
  options.log_level = LogLevel::off;
  return Engine(options);
}

/// Of an up projection whose rows lie anywhere among the tokens; some of them are no token's.
test::MatmulTest gathered_case(std::size_t scheme) {
  Config config =
      test::matmul_config({.scheme = scheme, .hidden = 272, .intermediate = 528, .activation = 9, .gather = true});
  verify::GroupedMatmulCase matmul_case;
  matmul_case.label = "seeded";
  matmul_case.counts = {33, 0, 3, 1, 40, 8};
  matmul_case.ids = {8, 3, -1, 5, 0, 1};
  matmul_case.first_row = 9;
  matmul_case.seed = 31;
  return {std::move(config), "grouped_matmul.up", std::move(matmul_case)};
}

test::MatmulShape shape_of(Rows rows) {
  if (rows == Rows::few || rows == Rows::expressed)
    return {"seeded", 9, 272, 1104, {33, 0, 3, 1, 40, 8}, {8, 3, -1, 5, 0, 1}};
  if (rows == Rows::many_deals)
    return {"seeded", 9, 1200, 80, {300, 0, 45, 64, 130, 257, 0, 70}, {8, 3, -1, 5, 0, 1, 1, 2}};
  return {"seeded", 9, 528, 272, {233, 197}, {8, 5}};
}

test::MatmulTest case_of(std::size_t scheme, Rows rows) {
  test::MatmulTest t = test::shape_test(shape_of(rows), test::kMatmulSchemes[scheme], "bfloat16");
  if (rows == Rows::expressed)
    t.config =
        test::matmul_config({.up = false, .scheme = scheme, .hidden = 272, .intermediate = 1104, .expression = 2});
  if (rows != Rows::quantised) return t;
  t.config = test::matmul_config({.scheme = scheme,
                                  .hidden = 528,
                                  .intermediate = 256,
                                  .fusion = test::kQuantisedMatmul,
                                  .bias = true,
                                  .space = R"("tall_least_rows": [1])"});
  t.kernel = "grouped_matmul.up";
  return t;
}

/// What goes wrong with `kernel` under `schedule`: findings, or the comparison's sentence.
struct Outcome {
  std::vector<CpuReport> reports;
  std::string wrong;
};

Outcome run(const Kernel& kernel, const CpuOptions& schedule, verify::GroupedMatmulProblem& problem) {
  Outcome outcome;
  try {
    problem.run(with_schedule(kernel, schedule));
    outcome.wrong = problem.compare().value_or("");
  } catch (const KernelError& error) {
    outcome.reports = error.reports();
  }
  return outcome;
}

bool is_caught(const Edit& edit, const Outcome& outcome) {
  if (!edit.finding) return !outcome.wrong.empty() || !outcome.reports.empty();
  return std::ranges::any_of(outcome.reports, [&](const CpuReport& report) { return report.finding == *edit.finding; });
}

std::string describe(const Outcome& outcome) {
  std::string text = outcome.wrong;
  for (const CpuReport& report : outcome.reports) text += report.text() + "\n";
  return text;
}

void check_edit(const Edit& edit) {
  const test::EditedTemplates edited(edit);
  const test::MatmulTest t = edit.gather ? gathered_case(edit.scheme) : case_of(edit.scheme, edit.rows);
  Engine engine = make_engine(edited.path(), edit.arch);
  const Kernel kernel = engine.get(t.config, t.kernel);
  verify::GroupedMatmulProblem problem(Target::cpu, verify::matmul_spec(kernel, t.config), t.matmul_case);
  std::string seen;
  for (const CpuOptions& schedule : schedules()) {
    const Outcome outcome = run(kernel, schedule, problem);
    if (is_caught(edit, outcome)) return;
    seen += describe(outcome);
  }
  FAIL_CHECK(edit.name << " is not caught: " << seen);
}

}  // namespace

TEST_CASE("every edit has its place in the templates") {
  for (const Edit& edit : pipeline_edits()) test::EditedTemplates{edit};
  for (const Edit& edit : gathering_edits()) test::EditedTemplates{edit};
  for (const Edit& edit : number_edits()) test::EditedTemplates{edit};
  for (const Edit& edit : stored_edits()) test::EditedTemplates{edit};
  for (const Edit& edit : joined_edits()) test::EditedTemplates{edit};
  for (const Edit& edit : deal_edits()) test::EditedTemplates{edit};
  for (const Edit& edit : mx_edits()) test::EditedTemplates{edit};
}

TEST_CASE("without an edit nothing is found" * doctest::skip()) {
  constexpr std::pair<std::size_t, Rows> kCases[] = {
      {kBf16, Rows::few},           {kRowwise, Rows::few},       {kBlocks, Rows::few},       {kMx, Rows::few},
      {kBf16, Rows::many},          {kBlocks, Rows::many},       {kBlocks, Rows::quantised}, {kBf16, Rows::many_deals},
      {kRowwise, Rows::many_deals}, {kBlocks, Rows::many_deals}, {kBf16, Rows::expressed}};
  for (const auto& [scheme, rows] : kCases) {
    const test::MatmulTest t = case_of(scheme, rows);
    Engine engine = make_engine(test::templates(), "sm_90a");
    const Kernel kernel = engine.get(t.config, t.kernel);
    verify::GroupedMatmulProblem problem(Target::cpu, verify::matmul_spec(kernel, t.config), t.matmul_case);
    for (const CpuOptions& schedule : schedules()) CHECK(describe(run(kernel, schedule, problem)) == "");
  }
}

TEST_CASE("gathered rows without an edit: nothing is found" * doctest::skip()) {
  for (const std::size_t scheme : {kBf16, kRowwise, kBlocks}) {
    const test::MatmulTest t = gathered_case(scheme);
    Engine engine = make_engine(test::templates(), "sm_90a");
    const Kernel kernel = engine.get(t.config, t.kernel);
    verify::GroupedMatmulProblem problem(Target::cpu, verify::matmul_spec(kernel, t.config), t.matmul_case);
    for (const CpuOptions& schedule : schedules()) CHECK(describe(run(kernel, schedule, problem)) == "");
  }
}

TEST_CASE("an edit of the pipeline, one of the deals and one of the numbers are caught") {
  check_edit(pipeline_edits().front());
  check_edit(deal_edits().front());
  check_edit(number_edits().front());
}

TEST_CASE("every edit of dealt tiles is caught" * doctest::skip()) {
  for (const Edit& edit : deal_edits()) check_edit(edit);
}

TEST_CASE("every edit of the pipeline is caught" * doctest::skip()) {
  for (const Edit& edit : pipeline_edits()) check_edit(edit);
  for (const Edit& edit : gathering_edits()) check_edit(edit);
}

TEST_CASE("every edit of joined tiles is caught" * doctest::skip()) {
  for (const Edit& edit : joined_edits()) check_edit(edit);
}

TEST_CASE("every edit of the numbers is caught" * doctest::skip()) {
  for (const Edit& edit : number_edits()) check_edit(edit);
}

TEST_CASE("every edit of what leaves is caught" * doctest::skip()) {
  for (const Edit& edit : stored_edits()) check_edit(edit);
}

TEST_CASE("every edit of mxfp8 is caught" * doctest::skip()) {
  for (const Edit& edit : mx_edits()) check_edit(edit);
}
