// SPDX-License-Identifier: Apache-2.0
// Config -> Plan -> Source: which kernels there are, where decisions come from, and what may not reach a source.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <moegen/args/create_indices.h>
#include <moegen/args/finalize.h>
#include <moegen/error.hpp>
#include <moegen/family.hpp>
#include <moegen/plan.hpp>
#include <moegen/shapes.hpp>
#include <moegen/source.hpp>

namespace {

using namespace moegen;

Config config_with(const std::string& more) {
  return Config::from_json(
      R"({"moegen": 1, "name": "small", "hidden": 512, "intermediate": 64, "num_experts": 40, "top_k": 4,
                               "router": {"scoring": "softmax"})" +
      more + "}");
}

const Decision& decision(const Plan& plan, std::string_view name) {
  for (const Decision& candidate : plan.decisions)
    if (candidate.name == name) return candidate;
  FAIL("no such decision");
  return plan.decisions.front();
}

create_indices::Args indices_args(std::int64_t num_pairs) {
  create_indices::Args args{};
  args.num_pairs = num_pairs;
  return args;
}

}  // namespace

TEST_CASE("kernels that come later are refused as such, typos as typos") {
  const Config config = config_with("");
  std::vector<std::string_view> families;
  for (const Family* family : all_families()) families.push_back(family->name);
  const std::string refused =
      fmt::format("kernel 'ep_combine': this version of moegen has no 'ep_combine' family yet; available {}",
                  fmt::join(families, ", "));
  CHECK_THROWS_WITH_AS(make_plan(config, "ep_combine", find_arch("sm_90a")), refused.c_str(), Error);
  try {
    make_plan(config, "finalise", find_arch("sm_90a"));
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    CHECK(std::string(error.what()).ends_with("; did you mean 'finalize'?"));
  }
  std::vector<std::string> available = available_kernels_of(config);
  for (const char* kernel : {"create_indices", "permute", "activation", "finalize"})
    CHECK(std::count(available.begin(), available.end(), kernel) == 1);
  CHECK(std::count(available.begin(), available.end(), "quantize.up") == 0);
}

TEST_CASE("a decision knows where it came from") {
  const Plan plan =
      make_plan(config_with(R"(, "indices": {"pad_rows_to": 16})"), "create_indices", find_arch("sm_90a"));
  CHECK(decision(plan, "pad_rows_to").origin == Origin::config);
  CHECK(decision(plan, "id_dtype").origin == Origin::standard);
  CHECK(decision(plan, "num_warps").origin == Origin::derived);
  CHECK_FALSE(decision(plan, "num_warps").reason.empty());
  CHECK(plan.explain().find("pad_rows_to") != std::string::npos);
  CHECK(plan.args_bytes == sizeof(create_indices::Args));
}

TEST_CASE("shared memory stays within every arch, for every number of experts") {
  for (const Arch& arch : all_archs())
    for (int experts : {1, 5, 256, 513, 1025, 2048})
      for (int pad : {1, 128}) {
        const Config config = Config::from_json(
            R"({"moegen": 1, "name": "n", "hidden": 64, "intermediate": 64, "num_experts": )" +
            std::to_string(experts) + R"(, "top_k": 1, "router": {"scoring": "softmax"}, "indices": {"pad_rows_to": )" +
            std::to_string(pad) + "}}");
        const Plan plan = make_plan(config, "create_indices", arch);
        for (const EntryPlan& entry : plan.entries) {
          CHECK(entry.dynamic_shared_bytes <= arch.max_shared_bytes);
          CHECK((entry.variant == "few" || entry.threads * plan.integer("groups_per_thread") >= experts));
        }
      }
}

TEST_CASE("create_indices picks its team from the number of pairs and the device") {
  const Plan plan = make_plan(config_with(""), "create_indices", find_arch("sm_90a"));
  const Family& family = *find_family("create_indices");
  const LaunchConstants constants = family.constants(plan);
  const LaunchDevice hopper{132, 16}, slice{16, 1};
  const auto launch = [&](std::int64_t pairs, const LaunchDevice& device) {
    const create_indices::Args args = indices_args(pairs);
    return family.launch(constants, device, &args);
  };
  const auto variant = [&](std::int64_t pairs, const LaunchDevice& device) {
    return plan.entries[static_cast<std::size_t>(launch(pairs, device).entry)].variant;
  };
  CHECK(launch(0, hopper).grid == 1);
  for (const LaunchDevice& device : {hopper, slice}) {
    CHECK(variant(0, device) == "few");
    CHECK(variant(256, device) == "few");
    CHECK(variant(257, device) == "cluster");
  }
  CHECK(launch(1024, hopper).grid == 1);
  CHECK(launch(1025, hopper).cluster == 2);
  CHECK(launch(8192, hopper).cluster == 8);
  CHECK(launch(98304, hopper).cluster == 16);
  CHECK(variant(98304, hopper) == "cluster");
  CHECK(variant(98305, hopper) == "grid");
  CHECK(launch(std::int64_t{1} << 30, hopper).grid == 64);
  CHECK(launch(6144, slice).grid == 1);
  CHECK(launch(1 << 20, slice).grid == 16);
  const create_indices::Args small = indices_args(4096), large = indices_args(1 << 20);
  CHECK(family.workspace_bytes(constants, hopper, &small) == 0);
  CHECK(family.workspace_bytes(constants, hopper, &large) == 4 * (16 + 64 * 40));
}

TEST_CASE("few pairs have an entry of their own where tables list the groups with pairs alone") {
  const Family& family = *find_family("create_indices");
  for (const char* options : {R"("pad_rows_to": 4)", R"("experts": "all")", R"("scales_offset": true)"}) {
    const Plan plan =
        make_plan(config_with(std::string(R"(, "indices": {)") + options + "}"), "create_indices", find_arch("sm_80"));
    CHECK(plan.entries.size() == 1);
    const create_indices::Args args = indices_args(1);
    CHECK(family.launch(family.constants(plan), {132, 1}, &args).entry == 0);
  }
}

TEST_CASE("finalize launches nothing for nothing, and refuses what a grid cannot hold") {
  const Plan plan = make_plan(config_with(""), "finalize", find_arch("sm_90a"));
  const Family& family = *find_family("finalize");
  const LaunchConstants constants = family.constants(plan);
  finalize::Args args{};
  CHECK(family.check(constants, {132, 16}, &args) == nullptr);
  CHECK(family.launch(constants, {132, 16}, &args).grid == 0);
  args.num_tokens = std::int64_t{1} << 40;
  CHECK(std::string(family.check(constants, {132, 16}, &args)).starts_with("num_tokens is too large"));
  args.num_tokens = 3;
  CHECK(family.launch(constants, {132, 16}, &args).grid == 3 * plan.integer("blocks_per_token"));
}

TEST_CASE("rows of every legal width are covered by whole vectors") {
  for (int hidden : {8, 16, 24, 64, 120, 1024, 2048, 2688, 2816, 2880, 3584, 4096, 5120, 6144, 7168, 16384}) {
    const Config config = Config::from_json(
        R"({"moegen": 1, "name": "n", "intermediate": 64, "num_experts": 4, "top_k": 2, "router": {"scoring": "softmax"},
            "hidden": )" +
        std::to_string(hidden) + "}");
    const Plan plan = make_plan(config, "finalize", find_arch("sm_90a"));
    const std::int64_t covered = plan.integer("threads") * plan.integer("vector") * plan.integer("blocks_per_token");
    CHECK(covered >= hidden);
    CHECK(covered - hidden < plan.integer("threads") * plan.integer("vector"));
    CHECK(hidden % plan.integer("vector") == 0);
  }
}

namespace {

/// Plans grouped_matmul.up of an fp8 layer; what keeps it from being planned, or "".
std::string refusal_of_up(const std::string& scheme, const std::string& experts, const std::string& more = "",
                          const char* arch = "sm_90a") {
  const Config config = Config::from_json(R"({"moegen": 1, "name": "n", "hidden": 256, "intermediate": 192, "top_k": 2,
      "num_experts": 8, "router": {"scoring": "softmax"}, "dtypes": {"weight": "float8_e4m3fn"},
      "quantization": {"scheme": ")" + scheme +
                                          R"("}, "experts": {)" + experts + "}" + more + "}");
  try {
    make_plan(config, "grouped_matmul.up", find_arch(arch));
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unsupported);
    return error.what();
  }
}

}  // namespace

TEST_CASE("rows that fuse_quantize asks for are quantised where they are produced, or refused") {
  const std::string asked = R"("fuse_quantize": true)", apart = R"("fuse_quantize": true, "fuse_activation": false)";
  const auto told = [](const std::string& why, const std::string& arch = "sm_90a") {
    return "<memory>: /experts/fuse_quantize: is true, but grouped_matmul.up applies the activation and, on " + arch +
           ", cannot quantise: " + why +
           "; allowed false or \"auto\", or experts.fuse_activation false (then the activation kernel quantises)";
  };
  CHECK(refusal_of_up("rowwise", asked) == told("no tile sees a whole row, which a rowwise scale needs"));
  CHECK(refusal_of_up("block128", asked) ==
        told("intermediate is no multiple of 128, so 128 rows of up lie in two blocks of scales"));
  CHECK(refusal_of_up("block128", asked, R"(, "activation": {"gate_layout": "interleaved"})") ==
        told("128 interleaved columns lie in two blocks of scales"));
  CHECK(refusal_of_up("block128", asked, R"(, "activation": {"kind": "relu2", "gated": false})", "sm_80") ==
        told("tiles without tensor copies do not hold a group of 128 columns", "sm_80"));
  CHECK(refusal_of_up("block128", asked, R"(, "activation": {"kind": "relu2", "gated": false})") == "");
  for (const char* gate : {"", R"(, "activation": {"gate_layout": "interleaved"})"})
    for (const char* arch : {"sm_90a", "sm_80"})
      CHECK(refusal_of_up("mxfp8", R"("fuse_quantize": true, "gather_a": true)", gate, arch) == "");
  for (const char* scheme : {"rowwise", "block128", "mxfp8"}) {
    CHECK(refusal_of_up(scheme, apart) == "");
    CHECK(refusal_of_up(scheme, "") == "");
  }
}

TEST_CASE("rows that permute weights are not gathered past it") {
  CHECK(refusal_of_up("rowwise", R"("gather_a": true, "weights_on_input": true)",
                      R"(, "finalize": {"weights_applied": true})") ==
        "<memory>: /experts/gather_a: is true, but with weights_on_input permute weights the rows; allowed false or "
        "\"auto\"");
  CHECK(refusal_of_up("rowwise", R"("gather_a": true)") == "");
}

TEST_CASE("a matmul that leaves quantising to others says why") {
  const Plan plan = make_plan(config_with(R"(, "quantization": {"scheme": "rowwise"},
      "dtypes": {"weight": "float8_e4m3fn"}, "experts": {"fuse_quantize": true, "fuse_activation": false})"),
                              "grouped_matmul.up", find_arch("sm_90a"));
  CHECK_FALSE(plan.boolean("fuse_quantize"));
  CHECK(decision(plan, "fuse_quantize").reason == "the activation is not fused: its kernel quantises");
}

TEST_CASE("up_epilogue is the matmul's where the activation is, else the activation kernel's") {
  const auto planned = [](const char* fuse) {
    return make_plan(
        config_with(std::string(R"(, "experts": {"up_epilogue": "value * 2", "fuse_activation": )") + fuse + "}"),
        "grouped_matmul.up", find_arch("sm_90a"));
  };
  CHECK(planned("true").boolean("epilogue"));
  CHECK(planned("true").expressions.size() == 1);
  CHECK_FALSE(planned("false").boolean("epilogue"));
  CHECK(planned("false").expressions.empty());
  CHECK(decision(planned("false"), "epilogue").reason == "experts.up_epilogue follows the activation, in its kernel");
}

TEST_CASE("large tiles are dealt where a warp is free for it, and the plan says why or why not") {
  const std::string fp8 = R"(, "dtypes": {"weight": "float8_e4m3fn"}, "quantization": {"scheme": ")";
  const auto reason = [](const std::string& more, std::string_view tiles, bool dealt) {
    const Plan plan = make_plan(config_with(more), "grouped_matmul.up", find_arch("sm_90a"));
    CHECK(plan.boolean(fmt::format("{}.dealt", tiles)) == dealt);
    return decision(plan, fmt::format("{}.dealt", tiles)).reason;
  };
  CHECK(reason("", "wide", true) == "a warp counts, by the rows of all tiles, which cluster is free first");
  CHECK(reason(fp8 + R"(block128"})", "tall", true) == reason("", "wide", true));
  CHECK(reason("", "narrow", false) == "clusters take tiles in turn: each brings as many weights");
  const std::string busy = "clusters take tiles in turn: all warps that load gather or bring scales of mxfp8";
  CHECK(reason(R"(, "experts": {"gather_a": true})", "wide", false) == busy);
  CHECK(reason(fp8 + R"(mxfp8"})", "wide", false) == busy);
  CHECK(reason(fp8 + R"(rowwise"})", "wide", false) ==
        "clusters take tiles in turn: promoted sums are 1 to 4 % faster so");
}

TEST_CASE("tune.space that leaves no tiles, or names none, is refused by name") {
  const auto refused = [](const std::string& scheme, const std::string& space, const std::string& experts = "") {
    return refusal_of_up(scheme, experts, R"(, "tune": {"space": {)" + space + "}}");
  };
  CHECK(refused("block128", R"("tall_raster": [8, 4], "wide_dealt": [0])") == "");
  CHECK(refused("block128", R"("tall_dealt": [2])") == "grouped_matmul: no legal tiles 'tall'; dealt 2; 0 or 1");
  CHECK(refused("rowwise", R"("wide_raster": [0])") == "grouped_matmul: no legal tiles 'wide'; raster 0; at least 1");
  CHECK(refused("mxfp8", R"("wide_dealt": [1])") ==
        "grouped_matmul: no legal tiles 'wide'; dealt; all warps that load gather or bring scales of mxfp8");
  CHECK(refused("rowwise", R"("wide_dealt": [1])", R"("gather_a": true)") ==
        "grouped_matmul: no legal tiles 'wide'; dealt; all warps that load gather or bring scales of mxfp8");
  CHECK(refused("block128", R"("tall_rastr": [4])")
            .starts_with("/tune/space/tall_rastr: is no parameter of tiles; did you mean 'tall_raster'?; allowed "));
  CHECK(
      refused("block128", R"("narrow_dealt": [1])").starts_with("/tune/space/narrow_dealt: is no parameter of tiles"));
}

TEST_CASE("joined tiles that would leave a column over are refused") {
  const Config config = Config::from_json(R"({"moegen": 1, "name": "n", "hidden": 256, "intermediate": 320, "top_k": 2,
      "num_experts": 8, "router": {"scoring": "softmax"}, "dtypes": {"weight": "float8_e4m3fn"},
      "quantization": {"scheme": "block128"}, "activation": {"kind": "relu2", "gated": false},
      "tune": {"space": {"tall_weight_rows": [64]}}})");
  try {
    make_plan(config, "grouped_matmul.up", find_arch("sm_90a"));
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("320 columns of c are no whole number of 2 joined tiles") !=
          std::string::npos);
  }
}

TEST_CASE("rows are gathered beside tensor copies, but for mxfp8, whose plan says why not") {
  const auto planned = [](const char* gather, const char* more) {
    return make_plan(config_with(std::string(R"(, "experts": {"gather_a": )") + gather + "}" + more),
                     "grouped_matmul.up", find_arch("sm_90a"));
  };
  CHECK(planned("true", "").entries.front().variant == "narrow");
  CHECK(planned("true", "").integer("narrow.gather_warps") == 3);
  const char* const mxfp8 = R"(, "dtypes": {"weight": "float8_e4m3fn"}, "quantization": {"scheme": "mxfp8"})";
  const std::string why = "experts.gather_a is true and the scheme mxfp8; permute lays rows side by side";
  CHECK(planned("true", mxfp8).entries.front().variant == "portable");
  CHECK(planned("true", mxfp8).explain().find(why) != std::string::npos);
  CHECK(planned("false", mxfp8).entries.front().variant == "narrow");
  CHECK(planned("false", mxfp8).explain().find(why) == std::string::npos);
  CHECK(planned("true", "").explain().find(why) == std::string::npos);
}

TEST_CASE("parts of a plan: one for each entry point of a matmul, and of anything else the whole") {
  const Plan matmul = make_plan(config_with(""), "grouped_matmul.up", find_arch("sm_90a"));
  const std::vector<Plan> parts = parts_of(matmul);
  REQUIRE(parts.size() == matmul.entries.size());
  REQUIRE(parts.size() >= 2);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    REQUIRE(parts[i].entries.size() == 1);
    CHECK(parts[i].entries[0].name == matmul.entries[i].name);
    CHECK(emit_source(parts[i]).entries == std::vector<std::string>{matmul.entries[i].name});
    CHECK(emit_source(parts[i]).text != emit_source(matmul).text);
    CHECK(parts_of(parts[i]).size() == 1);
    CHECK(parts_of(parts[i])[0].to_json() == parts[i].to_json());
  }
  const Plan finalize = make_plan(config_with(""), "finalize", find_arch("sm_90a"));
  REQUIRE(parts_of(finalize).size() == 1);
  CHECK(parts_of(finalize)[0].to_json() == finalize.to_json());
}

TEST_CASE("a plan's name cannot leave its comment") {
  Plan plan = make_plan(config_with(""), "finalize", find_arch("sm_90a"));
  plan.config_name = "evil\n#include <x>\\";  // no config has such a name, but a Plan is a plain value
  const std::string text = emit_source(plan).text;
  CHECK(text.find("\n#include") == std::string::npos);
  CHECK(text.find("evil?#include <x>?") != std::string::npos);
}

TEST_CASE("the lengths that callers allocate") {
  const Config padded = config_with(R"(, "indices": {"pad_rows_to": 16})");
  CHECK(order_capacity(padded.fields(), 3) == 3 + 3 * 15);
  CHECK(order_capacity(padded.fields(), 1000) == 1000 + 40 * 15);
  const Config all = config_with(R"(, "indices": {"pad_rows_to": 16, "experts": "all"})");
  CHECK(order_capacity(all.fields(), 3) == 3 + 40 * 15);
}

TEST_CASE("no kernel depends on the fields that the docs say so of") {
  const auto text = [](const std::string& more, const std::string& kernel) {
    return emit_source(make_plan(config_with(more), kernel, find_arch("sm_90a"))).text;
  };
  const std::vector<std::string> fields = {
      R"(, "max_tokens": 100)",
      R"(, "deterministic": false)",
      R"(, "indices": {"expected_count": 64})",
      R"(, "shared_experts": {"count": 2, "intermediate": 128})",
      R"(, "expert_parallel": {"ranks": 4, "combine": "slots", "capacity": 100})",
      R"(, "tune": {"num_tokens": [5]})",
      R"(, "dtypes": {"accumulate": "fast"})",
  };
  for (const std::string kernel :
       {"router", "create_indices", "permute", "grouped_matmul.up", "activation", "grouped_matmul.down", "finalize"}) {
    const std::string plain = text("", kernel);
    for (const std::string& field : fields) CHECK_MESSAGE(text(field, kernel) == plain, kernel << field);
  }
  CHECK(text(R"(, "indices": {"experts": "all"})", "create_indices") != text("", "create_indices"));
}
