// SPDX-License-Identifier: Apache-2.0
// The comparison of grouped_matmul itself: it passes what an exact kernel would write, and nothing else.
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "reference/number.hpp"
#include "reference/quantize.hpp"
#include "support/grouped_matmul_table.hpp"
#include "support/matmul_spec.hpp"
#include "verify/grouped_matmul_problem.hpp"

namespace {

using namespace moegen;
using reference::MatmulSpec;
using test::spec_of;
using verify::GroupedMatmulCase;
using verify::GroupedMatmulProblem;

// Writes one row as an exact kernel would; `scale_of` gives the place of a group's scale.
void write_quantised(const MatmulSpec& spec, const std::vector<Bounded>& row, std::int64_t index,
                     const grouped_matmul::Args& args, std::int64_t stride) {
  const QuantizationConfig& q = spec.fields.quantization;
  const std::size_t width = q.scheme == Scheme::mxfp8 ? 32 : 128;
  const auto groups = static_cast<std::int64_t>((row.size() + width - 1) / width);
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::size_t begin = static_cast<std::size_t>(group) * width, end = std::min(row.size(), begin + width);
    double most = 0;
    for (std::size_t j = begin; j < end; ++j)
      if (std::isfinite(row[j].value)) most = std::max(most, std::abs(row[j].value));
    const double scale = reference::e4m3_scale(most, q.floor, q.scale);
    const std::int64_t at = q.scale_layout == ScaleLayout::column ? group * stride + index : index * groups + group;
    reference::store(q.scale, args.c_scales, static_cast<std::size_t>(at), scale);
    for (std::size_t j = begin; j < end; ++j)
      reference::store(Dtype::float8_e4m3fn, args.c, static_cast<std::size_t>(index) * row.size() + j,
                       reference::e4m3_value(row[j].value, scale));
  }
}

void imitate(const GroupedMatmulProblem& problem, const GroupedMatmulCase& c, std::int64_t c_scales_stride) {
  problem.reset();
  const grouped_matmul::Args args = problem.args();
  std::int64_t row = c.first_row;
  for (std::size_t g = 0; g < c.counts.size(); ++g)
    for (std::int64_t i = 0; i < c.counts[g]; ++i, ++row) {
      const auto values = reference::matmul_row(problem.spec(), problem.tensors(), row, c.ids[g]);
      if (problem.spec().fuse_quantize) {
        write_quantised(problem.spec(), values, row, args, c_scales_stride);
        continue;
      }
      for (std::size_t j = 0; j < values.size(); ++j)
        reference::store(problem.spec().output, args.c, static_cast<std::size_t>(row) * values.size() + j,
                         values[j].value);
    }
}

std::int64_t stride_of(const MatmulSpec& spec, const GroupedMatmulCase& c) {
  const std::int64_t piece = 128 / bits(spec.fields.quantization.scale);
  const auto extra = static_cast<std::int64_t>(c.seed % 3) * piece;
  return (c.num_rows() + piece - 1) / piece * piece + extra;
}

const char* const kPlain =
    R"({"moegen": 1, "name": "n", "hidden": 192, "intermediate": 144, "num_experts": 9, "top_k": 2,
    "router": {"scoring": "softmax"}, "dtypes": {"weight": "float8_e4m3fn"}, "quantization": {"scheme": "rowwise"}})";
const char* const kQuantised = R"({"moegen": 1, "name": "n", "hidden": 192, "intermediate": 144, "num_experts": 9,
    "top_k": 2, "router": {"scoring": "softmax"}, "dtypes": {"weight": "float8_e4m3fn"},
    "experts": {"fuse_activation": true, "fuse_quantize": true, "gather_a": true},
    "quantization": {"scheme": "block128", "scale_layout": "column"}})";

using Fault = std::function<void(const grouped_matmul::Args& args, const MatmulSpec& spec)>;

// Whether the comparison finds `fault` in an otherwise exact output.
std::string found(const char* text, const Fault& fault, verify::MatmulSpoil spoil = verify::MatmulSpoil::none) {
  const Config config = Config::from_json(text);
  GroupedMatmulCase c = verify::make_matmul_case(config.fields(), verify::GroupPattern::hostile, 40, 5);
  c.spoil = spoil;
  const MatmulSpec spec = spec_of(config, true);
  GroupedMatmulProblem problem(Target::cpu, spec, c);
  imitate(problem, c, stride_of(spec, c));
  fault(problem.args(), spec);
  return problem.compare().value_or("");
}

constexpr std::int64_t kRow = 21;  // in a group with an expert

}  // namespace

TEST_CASE("what an exact kernel writes passes, on every thirtieth case of the tables") {
  for (const bool up : {true, false}) {
    const test::MatmulTable table(
        up,
        {.hidden = {192, 80, 176}, .intermediate = {64, 176, 80, 144}, .rows = {0, 1, 7, 33}, .experts = {1, 4, 9}});
    for (std::size_t i = 0; i < table.size(); i += 30) {
      const test::MatmulTest t = table.at(i);
      const MatmulSpec spec = spec_of(t.config, up);
      GroupedMatmulProblem problem(Target::cpu, spec, t.matmul_case);
      imitate(problem, t.matmul_case, stride_of(spec, t.matmul_case));
      CAPTURE(t.config.to_json());
      CAPTURE(t.matmul_case.name());
      CHECK(problem.compare().value_or("") == "");
    }
  }
}

TEST_CASE("values are of size 1 and of both signs") {
  for (const char* text : {kPlain, kQuantised}) {
    const Config config = Config::from_json(text);
    const GroupedMatmulCase c = verify::make_matmul_case(config.fields(), verify::GroupPattern::even, 16, 5);
    MatmulSpec spec = spec_of(config, true);
    spec.fuse_activation = spec.fuse_quantize = false;
    spec.output_columns = spec.columns;
    spec.output = Dtype::bfloat16;
    const GroupedMatmulProblem problem(Target::cpu, spec, c);
    double squares = 0;
    int negative = 0, count = 0;
    for (const Bounded& value : reference::matmul_row(spec, problem.tensors(), 3, c.ids[1])) {
      squares += value.value * value.value;
      negative += value.value < 0;
      ++count;
    }
    CHECK(std::sqrt(squares / count) > 0.3);
    CHECK(std::sqrt(squares / count) < 5);
    CHECK(negative > count / 4);
    CHECK(negative < 3 * count / 4);
  }
}

TEST_CASE("an element off by two ulp, one not written, and rows in no group are found") {
  const auto at = [](const grouped_matmul::Args& args, const MatmulSpec& spec, std::int64_t row, std::int64_t column) {
    return static_cast<std::uint16_t*>(args.c) + row * spec.output_columns + column;
  };
  CHECK(found(kPlain, [](const auto&, const auto&) {}) == "");
  CHECK(found(kPlain, [&](const auto& args, const auto& spec) {
          *at(args, spec, kRow, 100) += 2;
        }).starts_with("c[21, 100]: got"));
  CHECK(found(kPlain, [&](const auto& args, const auto& spec) {
          *at(args, spec, kRow, 287) = 0xFFFF;
        }).starts_with("c[21, 287]: was not written"));
  CHECK(found(kPlain, [&](const auto& args, const auto& spec) {
          *at(args, spec, 2, 5) = 0;
        }).starts_with("c[2, ...]: was written, but no group has the row"));
  CHECK(found(kPlain, [&](const auto& args, const auto& spec) { *at(args, spec, 48, 0) = 0; }).find("byte") !=
        std::string::npos);
  CHECK(found(kPlain, [&](const auto& args, const auto& spec) {
          *at(args, spec, 47, 7) = 0;
        }).starts_with("c[47, ...]: was written"));
  CHECK(found(kPlain, [&](const auto& args, const auto& spec) {
          for (std::int64_t i = 0; i < spec.output_columns; ++i)
            *at(args, spec, kRow, i) = *at(args, spec, kRow + 1, i);
        }).starts_with("c[21,"));
}

TEST_CASE("every element off by half an ulp too much is found by the norm") {
  const auto raise = [](const auto& args, const MatmulSpec& spec) {
    auto* c = static_cast<std::uint16_t*>(args.c);
    for (std::int64_t i = 3 * spec.output_columns; i < 43 * spec.output_columns; ++i)
      if (i % 3 != 0 && (c[i] & 0x7F80) != 0) ++c[i];
  };
  CHECK(found(kPlain, raise) != "");
}

TEST_CASE("codes that are each one apart are found by the norm") {
  const auto raise = [](const auto& args, const MatmulSpec& spec) {
    auto* c = static_cast<std::uint8_t*>(args.c);
    for (std::int64_t i = 3 * spec.output_columns; i < 43 * spec.output_columns; ++i)
      if (i % 3 != 0 && (c[i] & 0x7F) < 0x7E) ++c[i];
  };
  CHECK(found(kQuantised, raise).starts_with("c: the difference's norm is"));
}

TEST_CASE("codes of values that a clamp made equal pass: their roundings do not average") {
  constexpr const char* kClamped = R"({"moegen": 1, "name": "n", "hidden": 192, "intermediate": 144, "num_experts": 9,
    "top_k": 2, "router": {"scoring": "softmax"}, "dtypes": {"weight": "float8_e4m3fn"},
    "activation": {"kind": "silu", "limit": 0.0891},
    "experts": {"fuse_activation": true, "fuse_quantize": true, "gather_a": true},
    "quantization": {"scheme": "block128", "scale": "float8_e8m0fnu"}})";
  // silu(0.0891) * 0.0891 is 1.061 * 2^-8, near the middle between two codes under a scale that is a power of two.
  CHECK(found(kClamped, [](const auto&, const auto&) {}) == "");
}

TEST_CASE("NaN that reaches another row, or does not reach its own, is found") {
  const auto spoil = verify::MatmulSpoil::weights;
  CHECK(found(kPlain, [](const auto&, const auto&) {}, spoil) == "");
  const auto set = [](std::uint16_t value, bool nan) {
    return [=](const grouped_matmul::Args& args, const MatmulSpec& spec) {
      auto* c = static_cast<std::uint16_t*>(args.c);
      for (std::int64_t i = 3 * spec.output_columns; i < 43 * spec.output_columns; ++i)
        if (((c[i] & 0x7FFF) > 0x7F80) == nan) {
          c[i] = value;
          return;
        }
    };
  };
  CHECK(found(kPlain, set(0x3F80, true), spoil) != "");
  CHECK(found(kPlain, set(0x7FFF, false), spoil) != "");
}

TEST_CASE("wrong scales and codes are found") {
  const auto scale = [](const grouped_matmul::Args& args, std::int64_t group, std::int64_t row) {
    return static_cast<float*>(args.c_scales) + group * args.c_scales_stride + row;
  };
  CHECK(found(kQuantised, [](const auto&, const auto&) {}) == "");
  CHECK(found(kQuantised, [&](const auto& args, const auto&) {
          *scale(args, 1, kRow) *= 1.01f;
        }).starts_with("c_scales of row 21, columns 128..143: got"));
  CHECK(found(kQuantised, [&](const auto& args, const auto&) {
          *scale(args, 0, 1) = 1;
        }).starts_with("c_scales of row 1: was written"));
  CHECK(found(kQuantised, [&](const auto& args, const auto&) {
          std::swap(*scale(args, 0, kRow), *scale(args, 0, kRow + 2));
        }) != "");
  CHECK(found(kQuantised, [](const auto& args, const auto& spec) {
          static_cast<std::uint8_t*>(args.c)[kRow * spec.output_columns + 7] += 2;
        }).starts_with("c[21, 7]: got code"));
}
