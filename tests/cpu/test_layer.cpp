// SPDX-License-Identifier: Apache-2.0
// The whole layer on the CPU target: the chain of kernels that each config asks for, its output beside the layer in
// float64, and what that comparison finds.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/engine.hpp>

#include "cpu/schedules.hpp"
#include "reference/number.hpp"
#include "support/cpu_text.hpp"
#include "verify/layer.hpp"

using namespace moegen;

namespace {

constexpr const char* kSmallTiles =
    R"("tune": {"space": {"narrow_max_tokens": [16], "wide_max_tokens": [64], "wide_width_step": [64],
                          "tall_warpgroups": [2]}})";

/// A layer of 8 experts, two a token, with `more` members of the config.
Config layer_config(const std::string& more, int intermediate = 128) {
  return Config::from_json(fmt::format(
      R"({{"moegen": 1, "name": "layer", "hidden": 256, "intermediate": {}, "num_experts": 8, "top_k": 2,
           "router": {{"scoring": "softmax"}}, {}, {}}})",
      intermediate, kSmallTiles, more));
}

std::string fp8(const std::string& quantization, const std::string& more = "") {
  return R"("dtypes": {"weight": "float8_e4m3fn"}, "quantization": {)" + quantization + "}" + more;
}

Engine& engine_of(const std::string& arch) {
  static Engine hopper = test::checked_engine("sm_90a"), portable = test::checked_engine("sm_80");
  return arch == "sm_90a" ? hopper : portable;
}

std::vector<std::string> kernels_of_report(const verify::LayerReport& report) {
  std::vector<std::string> names;
  for (const verify::LayerRow& row : report.rows) names.push_back(row.kernel);
  return names;
}

verify::LayerOptions options_for(std::int64_t tokens) {
  verify::LayerOptions options;
  options.num_tokens = tokens;
  options.seed = 3;
  return options;
}

/// Runs the layer; everything must be right. Returns the names of its rows, in order.
std::vector<std::string> check(const char* arch, const Config& config, std::int64_t tokens = 9) {
  CAPTURE(config.to_json());
  CAPTURE(arch);
  const verify::LayerReport report = verify::run_layer(engine_of(arch), config, options_for(tokens));
  for (const verify::LayerRow& row : report.rows)
    CHECK_MESSAGE(row.wrong == "", row.kernel << ": " << row.wrong << row.details);
  return kernels_of_report(report);
}

using Names = std::vector<std::string>;

/// What the comparison of the whole layer says if its output of bfloat16 [9, 256] is changed.
std::string found(const Config& config, const std::function<void(std::vector<char>&)>& alter) {
  verify::LayerOptions options = options_for(9);
  options.alter_output = alter;
  const verify::LayerReport report = verify::run_layer(engine_of("sm_80"), config, options);
  REQUIRE(report.rows.back().kernel == "layer");
  return report.rows.back().wrong;
}

}  // namespace

TEST_CASE("each kernel reads what the one before it wrote, and the layer is that of float64") {
  CHECK(check("sm_80", layer_config(R"("experts": {"bias": true})")) ==
        Names{"router", "create_indices", "permute", "grouped_matmul.up", "grouped_matmul.down", "finalize", "layer"});
  CHECK(check("sm_80", layer_config(fp8(R"("scheme": "rowwise")", R"(, "experts": {"fuse_activation": false})"))) ==
        Names{"router", "create_indices", "permute", "grouped_matmul.up", "activation", "grouped_matmul.down",
              "finalize", "layer"});
}

// A minute or two: --no-skip.
TEST_CASE("every scheme and every way through the layer" * doctest::skip()) {
  const std::string apart = R"(, "experts": {"fuse_activation": false, "fuse_quantize": false})";
  const std::vector<std::string> schemes = {
      R"("scheme": "tensor")", R"("scheme": "rowwise")", R"("scheme": "block128")",
      R"("scheme": "block128", "scale_layout": "column")", R"("scheme": "block128", "scale": "float8_e8m0fnu")"};
  for (const char* arch : {"sm_80", "sm_90a"}) {
    for (const std::string& scheme : schemes) {
      const Names fused = check(arch, layer_config(fp8(scheme)));
      const bool all = std::string(arch) == "sm_90a" && scheme.find("block128") != std::string::npos;
      CHECK(std::ranges::count(fused, "quantize.down") == (all ? 0 : 1));
      CHECK(check(arch, layer_config(fp8(scheme, apart))) == Names{"router", "create_indices", "permute", "quantize.up",
                                                                   "grouped_matmul.up", "activation", "quantize.down",
                                                                   "grouped_matmul.down", "finalize", "layer"});
      CHECK(std::ranges::count(check(arch, layer_config(fp8(scheme, R"(, "experts": {"gather_a": true})"))),
                               "permute") == 0);
    }
    check(arch, layer_config(R"("dtypes": {"activation": "float16", "weight": "float16"})"));
    check(arch, layer_config(R"("experts": {"gather_a": true, "bias": true})"));
    check(arch, layer_config(fp8(R"("scheme": "rowwise")", R"(, "activation": {"gate_layout": "interleaved"})")));
    check(arch, layer_config(R"("activation": {"kind": "relu2", "gated": false}, "indices": {"pad_rows_to": 16})"));
    check(arch, layer_config(R"("activation": {"kind": "silu", "limit_per_expert": true})"));
    check(arch, layer_config(R"("activation": {"kind": "silu", "limit_per_expert": true},
                                "experts": {"fuse_activation": false})"));
    check(arch, layer_config(R"("experts": {"weights_on_input": true}, "finalize": {"weights_applied": true})"));
    check(arch, layer_config(R"("num_zero_experts": 2, "finalize": {"residual": true, "shared": true, "bias": true})"));
    for (const char* fuse : {"true", "false"})
      check(arch, layer_config(fmt::format(R"("experts": {{"fuse_activation": {}, "up_epilogue": "value * 2 + gain",
            "up_inputs": {{"gain": {{"dtype": "float32", "shape": "experts_columns"}}}},
            "down_epilogue": "value + col * 0.001"}},
            "finalize": {{"epilogue": "value * 3", "output": "float32", "down": "float32"}})",
                                           fuse)));
  }
}

TEST_CASE("the comparison of the layer finds two tokens that changed places, a missing part and one wrong number") {
  const Config config = layer_config(fp8(R"("scheme": "rowwise")", R"(, "experts": {"fuse_activation": false})"));
  const std::size_t row = 256 * 2;
  CHECK(found(config, [](std::vector<char>&) {}) == "");
  CHECK(found(config, [&](std::vector<char>& out) {
          std::swap_ranges(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(row),
                           out.begin() + static_cast<std::ptrdiff_t>(row));
        }).starts_with("output[0, "));
  const auto scaled = [](std::vector<char>& out, std::size_t begin, std::size_t end, double factor) {
    for (std::size_t i = begin; i < end; ++i)
      reference::store(Dtype::bfloat16, out.data(), i, factor * reference::load(Dtype::bfloat16, out.data(), i));
  };
  CHECK(found(config, [&](std::vector<char>& out) {
          scaled(out, 8 * 256, 9 * 256, 1.25);
        }).starts_with("output[8, ...]: the norm"));
  CHECK(found(config, [&](std::vector<char>& out) {
          reference::store(Dtype::bfloat16, out.data(), 4 * 256 + 7, 20.0);
        }).starts_with("output[4, 7]: got 20, the layer in float64 gives "));
}
