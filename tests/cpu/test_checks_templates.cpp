// SPDX-License-Identifier: Apache-2.0
// The shipped kernels under the checks: as they are they raise nothing, whatever the schedule; with one edit of their
// templates the checks find it at its line.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/arch.hpp>
#include <moegen/engine.hpp>
#include <moegen/source.hpp>

#include "support/cpu_text.hpp"
#include "support/edited_templates.hpp"
#include "support/report_place.hpp"
#include "verify/finalize_case.hpp"
#include "verify/indices_case.hpp"
#include "verify/router_case.hpp"

namespace {

using namespace moegen;

/// `wrong` in place of `right` in a template, and the finding that it must give, at a line that holds `side`.
struct Edit {
  std::string_view name, file, right, wrong;
  CpuFinding finding;
  std::string_view side, other = "";
  std::int64_t size = 1000;  ///< pairs or tokens
  std::string_view text = "";
  std::string arch = "sm_90a";
};

const std::vector<Edit>& indices_edits() {
  static const std::vector<Edit> edits = {
      {.name = "no barrier between counting and combining",
       .file = "create_indices/kernel.cuh",
       .right = "  if (team == Team::cluster) cluster_wait();\n  block_sync();\n",
       .wrong = "  if (team == Team::cluster) cluster_wait();\n",
       .finding = CpuFinding::race_shared,
       .side = "words[warp * P::num_groups]",
       .other = "counts[step.group] = popcount(step.peers)"},
      {.name = "no barrier of the warp before counts move on",
       .file = "create_indices/kernel.cuh",
       .right = "  warp_sync();\n  if (kept && rank == 0)",
       .wrong = "  if (kept && rank == 0)",
       .finding = CpuFinding::race_shared,
       .side = "counts[step.group] += popcount",
       .other = "kept ? counts[step.group] + rank"},
      {.name = "no barrier before the staged rows are written",
       .file = "create_indices/kernel.cuh",
       .right = "  block_sync();\n  const uint32_t count = has_all_rows",
       .wrong = "  const uint32_t count = has_all_rows",
       .finding = CpuFinding::race_shared,
       .side = "shared.staged[at] = pair",
       .other = "= shared.staged[i]"},
      {.name = "no barrier before few pairs' warps read each other's words",
       .file = "create_indices/few.cuh",
       .right = "exchange[warp_index()] = mine;\n    block_sync();\n",
       .wrong = "exchange[warp_index()] = mine;\n",
       .finding = CpuFinding::race_shared,
       .side = "exchange[warp_index()] = mine",
       .other = "exchange[r]",
       .size = 200},
      {.name = "counters are not cleared",
       .file = "create_indices/kernel.cuh",
       .right = "  clear_counts<P>(shared);\n",
       .wrong = "",
       .finding = CpuFinding::unwritten_shared,
       .side = "words[warp * P::num_groups]"},
      {.name = "no barrier of the cluster before its totals are read",
       .file = "create_indices/kernel.cuh",
       .right = "    cluster_arrive();\n    cluster_wait();\n",
       .wrong = "",
       .finding = CpuFinding::race_shared,
       .side = "*map_cluster_shared(word, block) = total",
       .other = "block < num_blocks() ? totals[",
       .size = 2000},
      {.name = "no barrier of the grid before its totals are read",
       .file = "create_indices/kernel.cuh",
       .right = "    grid_sync(static_cast<uint32_t*>(args.workspace) + kArrived);\n",
       .wrong = "    block_sync();\n",
       .finding = CpuFinding::race_global,
       .side = "*word = total",
       .other = "block < num_blocks() ? totals[",
       .size = 7000,
       .text = "'workspace'",
       .arch = "sm_80"},
      {.name = "one row past the end",
       .file = "create_indices/kernel.cuh",
       .right = "row < capacity; row += warps",
       .wrong = "row <= capacity; row += warps",
       .finding = CpuFinding::out_of_bounds,
       .side = "args.token_expert_order[row] = kNone",
       .text = "right past the end of 'token_expert_order'"},
  };
  return edits;
}

const std::vector<Edit>& finalize_edits() {
  static const std::vector<Edit> edits = {
      {.name = "the row of a dropped pair is read",
       .file = "finalize/kernel.cuh",
       .right = "    if (source[i].row != kNone) rows[i]",
       .wrong = "    rows[i]",
       .finding = CpuFinding::out_of_bounds,
       .side = "rows[i] = load_packed",
       .size = 7},
      {.name = "rows begin between vectors",
       .file = "finalize/kernel.cuh",
       .right = "static_cast<char*>(args.output) + (token",
       .wrong = "static_cast<char*>(args.output) + 4 + (token",
       .finding = CpuFinding::misaligned,
       .side = "store(pointer",
       .size = 7,
       .text = "no multiple of 16"},
      {.name = "two blocks write one token",
       .file = "finalize/kernel.cuh",
       .right = "token = block_index() / P::blocks_per_token;",
       .wrong = "token = block_index() / (2 * P::blocks_per_token);",
       .finding = CpuFinding::race_global,
       .side = "store(pointer",
       .other = "store(pointer",
       .size = 7,
       .text = "'output'"},
  };
  return edits;
}

const std::vector<Edit>& router_edits() {
  static const std::vector<Edit> edits = {
      {.name = "no barrier of the warp before slots are read",
       .file = "router/select.cuh",
       .right = "  warp_sync();\n  return P::exact_packing",
       .wrong = "  return P::exact_packing",
       .finding = CpuFinding::race_shared,
       .side = "taken_slots<P>()[round] = {largest, from}",
       .other = "taken = taken_slots<P>()[lane]",
       .size = 7},
      {.name = "the last lane reads past the row",
       .file = "router/place.cuh",
       .right = "lane.value[i] = holds<P>(place, i) ? to_float(row[expert_at<P>(place, i)]) : 0.0f;",
       .wrong = "lane.value[i] = to_float(row[expert_at<P>(place, i)]);",
       .finding = CpuFinding::out_of_bounds,
       .side = "lane.value[i] = to_float(row",
       .size = 7,
       .text = "'logits'"},
      {.name = "teams without a token store",
       .file = "router/kernel.cuh",
       .right = "min_of(token, num_tokens - 1), token < num_tokens);",
       .wrong = "token, true);",
       .finding = CpuFinding::out_of_bounds,
       .side = "logits_row<P>",
       .size = 7},
  };
  return edits;
}

constexpr std::string_view kConfig = R"({"moegen": 1, "name": "seeded", "hidden": 512, "intermediate": 64,
    "num_experts": 200, "top_k": 6, "router": {"scoring": "softmax"}, "finalize": {"output": "float32"}})";

CpuOptions fair() { return {.check = true}; }

CpuOptions chaos(std::uint64_t seed) {
  return {.schedule = Schedule::chaos, .async_timing = AsyncTiming::random, .seed = seed, .check = true};
}

Engine make_engine(const std::filesystem::path& directory, const std::string& arch = "sm_90a") {
  EngineOptions options;
  options.target = Target::cpu;
  options.cpu = fair();
  options.cpu.arch = arch;
  options.template_dir = directory;
  options.log_level = LogLevel::off;
  return Engine(options);
}

void run_indices(const Kernel& kernel, const Config& config, std::int64_t num_pairs) {
  const auto wrong = verify::run_case(kernel, config, {num_pairs, verify::IdPattern::hostile, 5});
  CHECK_MESSAGE(!wrong, wrong.value_or(""));
}

void run_finalize(const Kernel& kernel, const Config& config, std::int64_t num_tokens) {
  const auto wrong = verify::run_case(kernel, config, {num_tokens, verify::RowPattern::dropped, 5});
  CHECK_MESSAGE(!wrong, wrong.value_or(""));
}

void run_router(const Kernel& kernel, const Config& config, std::int64_t num_tokens) {
  verify::RouterCase router_case;
  router_case.num_tokens = num_tokens;
  router_case.logits = verify::LogitPattern::mixed;
  const auto wrong = verify::run_case(kernel, config, router_case);
  CHECK_MESSAGE(!wrong, wrong.value_or(""));
}

std::vector<CpuReport> reports_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const KernelError& error) {
    return error.reports();
  }
  return {};
}

using RunKernel = void (*)(const Kernel& kernel, const Config& config, std::int64_t size);

void check_edit(const Edit& edit, const char* name, RunKernel run) {
  const Config config = Config::from_json(kConfig);
  const test::EditedTemplates edited(edit);
  const std::string text =
      emit_source(make_plan(config, name, find_arch(edit.arch)), Templates::from_directory(edited.path())).text;
  Engine engine = make_engine(edited.path(), edit.arch);
  const Kernel kernel = engine.get(config, name);
  for (const CpuOptions& options : {fair(), chaos(1), chaos(2)}) {
    const auto reports = reports_of([&] { run(with_schedule(kernel, options), config, edit.size); });
    const bool caught = std::ranges::any_of(reports, [&](const CpuReport& report) {
      return report.finding == edit.finding && report.what.find(edit.text) != std::string::npos &&
             test::has_side(text, report, edit.side) && test::has_side(text, report, edit.other);
    });
    CHECK_MESSAGE(caught, edit.name << ": " << test::text(reports));
  }
}

}  // namespace

TEST_CASE("create_indices raises nothing as a block, a cluster and a grid") {
  struct Team {
    const char* arch;
    std::int64_t num_pairs;
  };
  const Config config = Config::from_json(kConfig);
  // That 2000 pairs take a cluster, and 7000 a grid where there are no clusters, the edits below show.
  for (const Team& team : {Team{"sm_90a", 11}, Team{"sm_90a", 1000}, Team{"sm_90a", 2000}, Team{"sm_80", 7000}}) {
    Engine engine = make_engine(test::templates(), team.arch);
    const Kernel kernel = engine.get(config, "create_indices");
    for (std::uint64_t seed = 0; seed <= (team.num_pairs < 7000 ? 8u : 2u); ++seed) {  // a grid takes half a second
      const Kernel scheduled = with_schedule(kernel, seed == 0 ? fair() : chaos(seed));
      const auto reports = reports_of([&] { run_indices(scheduled, config, team.num_pairs); });
      CHECK_MESSAGE(reports.empty(), team.num_pairs << " pairs, seed " << seed << ": " << test::text(reports));
    }
  }
}

TEST_CASE("finalize raises nothing") {
  const Config config = Config::from_json(kConfig);
  Engine engine = make_engine(test::templates());
  const Kernel kernel = engine.get(config, "finalize");
  for (std::uint64_t seed = 0; seed <= 8; ++seed) {
    const Kernel scheduled = with_schedule(kernel, seed == 0 ? fair() : chaos(seed));
    const auto reports = reports_of([&] { run_finalize(scheduled, config, 7); });
    CHECK_MESSAGE(reports.empty(), "seed " << seed << ": " << test::text(reports));
  }
}

TEST_CASE("an edit of create_indices is found at its line") {
  for (const Edit& edit : indices_edits()) check_edit(edit, "create_indices", run_indices);
}

TEST_CASE("an edit of finalize is found at its line") {
  for (const Edit& edit : finalize_edits()) check_edit(edit, "finalize", run_finalize);
}

TEST_CASE("router raises nothing") {
  const Config config = Config::from_json(kConfig);
  Engine engine = make_engine(test::templates());
  const Kernel kernel = engine.get(config, "router");
  for (std::uint64_t seed = 0; seed <= 8; ++seed) {
    const Kernel scheduled = with_schedule(kernel, seed == 0 ? fair() : chaos(seed));
    const auto reports = reports_of([&] { run_router(scheduled, config, 17); });
    CHECK_MESSAGE(reports.empty(), "seed " << seed << ": " << test::text(reports));
  }
}

TEST_CASE("an edit of router is found at its line") {
  for (const Edit& edit : router_edits()) check_edit(edit, "router", run_router);
}
