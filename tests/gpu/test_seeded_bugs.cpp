// SPDX-License-Identifier: Apache-2.0
// Kernels with one seeded bug each: the cases of verify must catch every one, or they catch nothing.
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <moegen/engine.hpp>

#include "gpu/device_test.hpp"
#include "support/edited_templates.hpp"
#include "verify/finalize_case.hpp"
#include "verify/indices_case.hpp"
#include "verify/router_case.hpp"

namespace {

using namespace moegen;

struct Bug {
  std::string_view name, file, right, wrong;
};

constexpr std::array<Bug, 10> kIndicesBugs = {{
    {"ranks count the lane itself", "create_indices/kernel.cuh",
     "popcount(step.peers & lanes_below());\n  const bool kept",
     "popcount(step.peers & (lanes_below() * 2 + 1));\n  const bool kept"},
    {"counts are not carried to the next step", "create_indices/kernel.cuh",
     "if (kept && rank == 0) counts[step.group] += popcount(step.peers);", ""},
    {"blocks of a team ignore those before them", "create_indices/kernel.cuh",
     "before += block < block_index() ? count : 0;", "before += 0;"},
    {"the tail stays unwritten", "create_indices/kernel.cuh", "  fill_unused<P>(args, shared, all.rows);\n", ""},
    {"an id one past the end is kept", "create_indices/ids.cuh",
     "if (local < static_cast<Unsigned>(P::num_local_experts))",
     "if (local <= static_cast<Unsigned>(P::num_local_experts))"},
    {"the largest count is one warp's", "create_indices/kernel.cuh", "lane_index() < P::num_warps ? shared.partial[3 *",
     "lane_index() < 1 ? shared.partial[3 *"},
    {"a write past the end", "create_indices/kernel.cuh", "row < capacity; row += warps",
     "row <= capacity; row += warps"},
    {"staged pairs lose their rows", "create_indices/kernel.cuh",
     "[has_all_rows<P>() ? i : shared.staged_row[i]] =", "[i] ="},
    {"few pairs: higher groups come first", "create_indices/few.cuh", "standing.same[r] & ~votes;",
     "standing.same[r] & votes;"},
    {"few pairs: ranks are a warp's own", "create_indices/few.cuh",
     "popcount(r < warp_index() ? mask :", "popcount(r < warp_index() ? 0 :"},
}};

constexpr std::array<Bug, 5> kFinalizeBugs = {{
    {"a dropped row is read", "finalize/kernel.cuh", "    if (source[i].row != kNone) {\n",
     "    if (source[i].row != kNone || source[i].weight != source[i].weight) {\n"},
    {"weights of the next token", "finalize/kernel.cuh", "args.weights)[pair]", "args.weights)[pair ^ 1]"},
    {"32-bit offsets", "finalize/kernel.cuh", "load_elements<T, P::vector>(base, row * P::hidden + column)",
     "load_elements<T, P::vector>(base, static_cast<uint32_t>((row * P::hidden + column) * sizeof(T)) / sizeof(T))"},
    {"halves of a word swapped", "core/elements.cuh", "index % 2 == 0 ? word & 0xFFFFu",
     "index % 2 != 0 ? word & 0xFFFFu"},
    {"sum rounded in between", "finalize/kernel.cuh", "sum.value[i] += scale * packed[i];",
     "sum.value[i] = bits_float(float_bits(sum.value[i] + scale * packed[i]) & 0xFFFFF000u);"},
}};

constexpr std::string_view kConfig = R"({"moegen": 1, "name": "seeded", "hidden": 2048, "intermediate": 64,
    "num_experts": 200, "top_k": 6, "router": {"scoring": "softmax"}, "finalize": {"output": "float32"}})";

constexpr std::array<Bug, 7> kRouterBugs = {{
    {"dropped groups stay in", "router/select.cuh",
     "    list = make_list<P>(keys, place, bound);\n    if (dropped) list",
     "    list = make_list<P>(keys, place, bound);\n    if (false) list"},
    {"equal keys go to the higher expert", "router/select.cuh", "~team_max<P::lanes>(best == largest ? ~expert : 0u)",
     "team_max<P::lanes>(best == largest ? expert : 0u)"},
    {"what packed keys cannot tell stays", "router/select.cuh",
     "return (packed | P::index_mask) == (next_head | P::index_mask);", "return false;"},
    {"rows are dense", "router/place.cuh", "static_cast<uint64_t>(args.row_stride)",
     "static_cast<uint64_t>(P::num_experts)"},
    {"the bias reaches the weights", "router/kernel.cuh", "  return order_of(key_of<P>(slot.logit, slot.score, bias));",
     "  const_cast<Slot&>(slot).score += bias;\n  return order_of(key_of<P>(slot.logit, slot.score - bias, bias));"},
    {"fillers have weights", "router/weights.cuh", "slot.expert != kNone && !slot.filler &&",
     "slot.expert != kNone &&"},
    {"scores underflow", "router/weights.cuh", "P::sigmoid ? -55.0f : -110.0f", "-1e30f"},
}};

constexpr std::string_view kRouterConfig = R"({"moegen": 1, "name": "seeded", "hidden": 64, "intermediate": 64,
    "num_experts": 200, "top_k": 6, "router": {"scoring": "sigmoid", "bias": "float32", "num_groups": 8,
    "top_groups": 3}})";

// Here all experts have a slot, also those whose bias is -infinity: fillers that have a score.
constexpr std::string_view kFewExpertsConfig = R"({"moegen": 1, "name": "seeded-few", "hidden": 64, "intermediate": 64,
    "num_experts": 24, "top_k": 24, "router": {"scoring": "sigmoid", "bias": "float32"}})";

Engine seeded_engine(const std::filesystem::path& directory) {
  EngineOptions options = EngineOptions::from_environment();
  options.cache_dir.clear();
  options.template_dir = directory;
  return Engine(options);
}

bool indices_caught(const Kernel& kernel, const Config& config) {
  for (std::int64_t pairs : {11, 197, 1000, 5000, 200000})
    for (verify::IdPattern pattern : verify::all_id_patterns())
      if (verify::run_case(kernel, config, {pairs, pattern, 5})) return true;
  return false;
}

bool finalize_caught(const Kernel& kernel, const Config& config) {
  for (verify::RowPattern pattern : verify::all_row_patterns())
    if (verify::run_case(kernel, config, {7, pattern, 5})) return true;
  return false;
}

bool router_caught(const Kernel& kernel, const Config& config) {
  for (verify::LogitPattern logits : verify::all_logit_patterns())
    for (verify::BiasPattern bias : verify::all_bias_patterns()) {
      verify::RouterCase c;
      c.num_tokens = 1000;
      c.logits = logits;
      c.bias = bias;
      c.padding = 4;
      if (verify::run_case(kernel, config, c)) return true;
    }
  return false;
}

bool router_caught(Engine& engine) {
  for (std::string_view text : {kRouterConfig, kFewExpertsConfig}) {
    const Config config = Config::from_json(text);
    if (router_caught(engine.get(config, "router"), config)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("every seeded bug has its place in the templates") {
  for (const Bug& bug : kIndicesBugs) test::EditedTemplates{bug};
  for (const Bug& bug : kFinalizeBugs) test::EditedTemplates{bug};
  for (const Bug& bug : kRouterBugs) test::EditedTemplates{bug};
}

TEST_CASE("seeded bugs of create_indices are caught") {
  test::require_device();
  const cuda::PrimaryContext context;
  const Config config = Config::from_json(kConfig);
  for (const Bug& bug : kIndicesBugs) {
    const test::EditedTemplates seeded(bug);
    Engine engine = seeded_engine(seeded.path());
    CHECK_MESSAGE(indices_caught(engine.get(config, "create_indices"), config), bug.name);
  }
  Engine right = seeded_engine(test::templates());
  CHECK_FALSE(indices_caught(right.get(config, "create_indices"), config));
}

TEST_CASE("seeded bugs of finalize are caught") {
  test::require_device();
  const cuda::PrimaryContext context;
  const Config config = Config::from_json(kConfig);
  for (const Bug& bug : kFinalizeBugs) {
    const test::EditedTemplates seeded(bug);
    Engine engine = seeded_engine(seeded.path());
    CHECK_MESSAGE(finalize_caught(engine.get(config, "finalize"), config), bug.name);
  }
  Engine right = seeded_engine(test::templates());
  CHECK_FALSE(finalize_caught(right.get(config, "finalize"), config));
}

TEST_CASE("seeded bugs of router are caught") {
  test::require_device();
  const cuda::PrimaryContext context;
  for (const Bug& bug : kRouterBugs) {
    const test::EditedTemplates seeded(bug);
    Engine engine = seeded_engine(seeded.path());
    CHECK_MESSAGE(router_caught(engine), bug.name);
  }
  Engine right = seeded_engine(test::templates());
  CHECK_FALSE(router_caught(right));
}
