// SPDX-License-Identifier: Apache-2.0
// Faults that others' kernels of rows have had, each as a test of its whole kind, and faults seeded into ours, which
// the comparisons and the checks must find. Numbers: the list of users' bug reports that this project keeps.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/args/quantize.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "cpu/schedules.hpp"
#include "support/edited_templates.hpp"
#include "support/row_tables.hpp"
#include "verify/memory.hpp"

using namespace moegen;

namespace {

constexpr std::string_view kTop = R"("num_experts": 8, "top_k": 2, "router": {"scoring": "softmax"})";

Config rows_config(int width, std::size_t scheme, std::string_view dtype = "bfloat16", std::string_view more = "") {
  return test::row_tables::config(width, test::kRowSchemes[scheme], dtype, kTop, more);
}

std::vector<CpuOptions> fair() { return {test::all_schedules().front()}; }

// One row of bfloat16, quantised by block128: its codes and scales.
struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

Quantized quantize_row(Engine& engine, const std::vector<std::uint16_t>& row) {
  const auto x = verify::Memory::of(Target::cpu, "x", row);
  const verify::Memory codes(Target::cpu, "rows", 256), scales(Target::cpu, "scales", 8);
  quantize::Args args{};
  args.rows = codes.data();
  args.scales = scales.data();
  args.x = x.data();
  args.num_rows = 1;
  verify::run_to_end(engine.get(rows_config(256, 3), "quantize.up"), args);
  return {{codes.data<std::uint8_t>(), codes.data<std::uint8_t>() + 256},
          {scales.data<float>(), scales.data<float>() + 2}};
}

/// `wrong` in place of `right` in a template, and where it must show.
struct Edit {
  std::string_view name, file, right, wrong;
  const char* kernel;
  std::size_t scheme;
  int width = 160;
  bool finding = false;  ///< of the checks, not of the comparison
};

const std::vector<Edit>& edits() {
  static const std::vector<Edit> all = {
      {"a product by the inverse instead of a quotient", "core/quantize.cuh",
       "return math::fma(x, inverse, product_down(x * inverse, missing));", "return x * inverse;", "quantize.up", 2},
      {"a correction that loses the sign of zero", "core/quantize.cuh", "? -0.0f : product;", "? 0.0f : product;",
       "quantize.up", 3},
      {"infinities are divided", "core/quantize.cuh", "if (!group.finite) bound_values(value, limit);", "",
       "quantize.up", 3},
      {"infinities count as magnitudes", "core/quantize.cuh", "if (magnitude <= kLargestFloat) largest", "largest",
       "quantize.up", 2},
      {"no floor", "core/quantize.cuh", "const float limit = math::max(group.largest, P::floor());",
       "const float limit = math::max(group.largest, 1e-37f);", "quantize.up", 3},
      {"e8m0 scales rounded to nearest", "core/quantize.cuh", "+ 0x7FFFFFu) >> 23", "+ 0x3504F3u) >> 23", "quantize.up",
       7},
      {"halves of e2m1 rounded up", "core/quantize.cuh", "math::fma(below_2, 4.0f, 8388608.0f)",
       "math::fma(below_2, 4.0004f, 8388608.0f)", "quantize.up", 8},
      {"a NaN in a group of four-bit codes is lost", "core/quantize.cuh", "return group.nan ? 0xFF : scale;",
       "return scale;", "quantize.up", 8},
      {"the maximum of one warp of a row", "core/rows.cuh",
       "return bits_float(warp_max(lane_index() < kWarps ? word[lane_index()] : 0));", "return bits_float(largest);",
       "quantize.up", 2, 2080},
      {"no barrier before the maximum of a row is read", "core/rows.cuh", "  block_sync();\n  return bits_float",
       "  return bits_float", "quantize.up", 2, 2080, true},
      {"a row more than there is", "core/rows.cuh", "body(row, in_team && row < count,", "body(row, in_team,",
       "quantize.up", 3, 160, true},
      {"scales of the column layout by row", "core/row_codes.cuh",
       "P::column_scales ? group * output.scales_stride + row", "false ? group", "quantize.up", 4},
      {"gate and up exchanged", "activation/kernel.cuh", "activate<P>(pairs.gate(i), pairs.up(i), limit)",
       "activate<P>(pairs.up(i), pairs.gate(i), limit)", "activation", 0},
      {"limits dropped", "core/activation.cuh", "gated<P>(math::min(gate, limit), math::clamp(up, -limit, limit))",
       "gated<P>(gate, up)", "activation", 3},
      {"the pair that has no row is written", "permute/kernel.cuh",
       "if (targets.row[slot] == kNone) continue;\n      store_codes", "store_codes", "permute", 3, 160, true},
      {"no barrier before the scales of a token are read", "permute/staged_scales.cuh", "    block_sync();\n", "",
       "permute", 3, 1408, true},
      {"padding rows are left as they are", "permute/kernel.cuh",
       "if (in_group && args.order[end - distance] == kNone) clear_row", "if (false) clear_row", "permute", 3},
  };
  return all;
}

std::string_view sections_for(std::string_view kernel) {
  if (kernel == "permute") return R"(, "indices": {"pad_rows_to": 16})";
  return kernel == "activation" ? R"(, "activation": {"kind": "silu", "limit": 1.5})" : "";
}

// What goes wrong with a kernel on a hostile case: the comparison's sentence, or the checks' text.
std::string run(const Kernel& kernel, const Config& config, std::string_view name, bool& found) {
  try {
    if (name == "permute")
      return verify::run_case(kernel, config,
                              verify::PermuteCase{21, verify::IdPattern::hostile, verify::RowsPattern::hostile, 3})
          .value_or("");
    if (name == "activation")
      return verify::run_case(kernel, config, verify::ActivationCase{21, verify::RowsPattern::hostile, 3}).value_or("");
    return verify::run_case(kernel, config, verify::QuantizeCase{21, verify::RowsPattern::hostile, 3}).value_or("");
  } catch (const KernelError& error) {
    found = true;
    return error.text();
  }
}

}  // namespace

TEST_CASE("every fault that is seeded into the templates is found") {
  for (const Edit& edit : edits()) {
    CAPTURE(edit.name);
    const test::EditedTemplates edited(edit);
    EngineOptions options = EngineOptions::from_environment();
    options.cache_dir.clear();
    options.target = Target::cpu;
    options.cpu.check = true;
    options.cpu.num_sms = 2;
    options.template_dir = edited.path();
    options.log_level = LogLevel::off;
    Engine engine(options);
    const Config config = rows_config(edit.width, edit.scheme, "bfloat16", sections_for(edit.kernel));
    bool found = false;
    const std::string wrong = run(engine.get(config, edit.kernel), config, edit.kernel, found);
    CHECK(wrong != "");
    CHECK(found == edit.finding);
  }
}

// Bug 31: a block of zeros had a scale of 0, and NaN codes.
TEST_CASE("bug 31: a group of zeros has a finite scale and codes of zero") {
  Engine engine = test::checked_engine();
  const Quantized zeros = quantize_row(engine, std::vector<std::uint16_t>(256, 0));
  CHECK(zeros.scales[0] == 1e-10f / 448.0f);
  for (const std::uint8_t code : zeros.codes) CHECK(code == 0);
}

// Bug 32: scales of groups near the floor differed between two implementations of one rule.
TEST_CASE("bug 32: groups around the floor are exact") {
  Engine engine = test::checked_engine();
  const std::uint16_t tiny[] = {0, 0x2B8D /* 1.0e-12 */, 0x32AC /* 2.0e-8 */, 0x3301 /* 3.0e-8 */,
                                0x2EDC /* 1.0e-10 */};
  for (const std::uint16_t bits : tiny) {
    std::vector<std::uint16_t> row(256, 0);
    row[3] = bits;
    const Quantized got = quantize_row(engine, row);
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    CHECK(got.scales[0] == std::max(value, 1e-10f) / 448.0f);
    CHECK(got.codes[3] == (value >= 1e-10f ? 0x7E : got.codes[3]));
  }
}

// Bug 33: a NaN spread to other rows.
TEST_CASE("bug 33: a NaN stays where it is") {
  Engine engine = test::checked_engine();
  std::vector<std::uint16_t> row(256, 0x3F80);
  row[5] = 0x7FC0;
  const Quantized got = quantize_row(engine, row);
  CHECK(got.codes[5] == 0x7F);
  CHECK(got.scales[0] == 1.0f / 448.0f);
  CHECK(std::count(got.codes.begin(), got.codes.end(), 0x7E) == 255);
}

// Bug 40: the router weight was applied to the input and again at the end.
TEST_CASE("bug 40: with weights on the input rows are linear in the weight") {
  Engine engine = test::checked_engine();
  for (const std::size_t scheme : {0u, 2u, 3u}) {
    const Config config = test::PermuteTable::one(160, test::kRowSchemes[scheme], "bfloat16", 2,
                                                  test::PermuteTable::kIndices[0], "float32");
    CHECK(config->finalize.weights_applied);
    test::check_case(engine, config, "permute",
                     verify::PermuteCase{9, verify::IdPattern::uniform, verify::RowsPattern::ordinary, 3}, fair());
  }
}

// Bugs 42, 43: an empty batch had a grid of zero blocks, or null pointers that were refused.
TEST_CASE("bugs 42 and 43: nothing to do is legal with null pointers") {
  Engine engine = test::checked_engine();
  const quantize::Args args{};
  for (std::size_t scheme = 1; scheme < test::kRowSchemes.size(); ++scheme)
    CHECK_NOTHROW(engine.get(rows_config(64, scheme), "quantize.down").run(args, nullptr));
}

// Bugs 62, 63, 65: widths that are no multiple of a block of 128, or of a tile.
TEST_CASE("bugs 62, 63 and 65: every width of whole 16-byte pieces") {
  Engine engine = test::checked_engine();
  for (const int width : {64, 80, 176, 192, 704}) {
    for (const std::size_t scheme : {3u, 7u})
      test::check_case(engine, rows_config(width, scheme), "quantize.down",
                       verify::QuantizeCase{11, verify::RowsPattern::hostile, 3}, fair());
  }
}

// Bug 64: a tile that spans two groups of scales.
TEST_CASE("bug 64: groups of 16 and 32 have scales of their own") {
  Engine engine = test::checked_engine();
  for (const std::size_t scheme : {7u, 8u, 9u})
    test::check_case(engine, rows_config(96, scheme), "quantize.up",
                     verify::QuantizeCase{20, verify::RowsPattern::hostile, 3}, fair());
}

// Bug 66: the bits of a token depended on its batch.
TEST_CASE("bug 66: a row alone has the codes that it has in a batch") {
  Engine engine = test::checked_engine();
  std::vector<std::uint16_t> row(256);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::uint16_t>(0x3F00 + 37 * i % 400);
  const Quantized first = quantize_row(engine, row), second = quantize_row(engine, row);
  CHECK(first.codes == second.codes);
  CHECK(first.scales == second.scales);
}

// Bug 69: the clamp was dropped where the result is quantised, and interleaved gates were taken for halves.
TEST_CASE("bug 69: limits hold in every layout and scheme") {
  Engine engine = test::checked_engine();
  for (const std::string_view kind :
       {R"("kind": "silu", "limit": 0.5)", R"("kind": "silu", "limit": 0.5, "gate_layout": "interleaved")",
        R"("kind": "swiglu_oai", "limit": 0.75, "gate_layout": "interleaved")"})
    for (const std::size_t scheme : {0u, 2u, 3u, 7u, 9u})
      test::check_case(engine, test::ActivationTable::one(96, test::kRowSchemes[scheme], "bfloat16", kind),
                       "activation", verify::ActivationCase{10, verify::RowsPattern::hostile, 3}, fair());
}
