// SPDX-License-Identifier: Apache-2.0
#include "reference/grouped_matmul.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "expression_places.hpp"
#include "reference/activation.hpp"
#include "reference/expert_rows.hpp"
#include "reference/number.hpp"

namespace moegen::reference {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;
constexpr std::int64_t kScaleBlock = 128, kMxBlock = 32;
constexpr double kRounding = 0x1p-24;  // of one float32 operation
constexpr double kDeviations = 8;

// Sum of the products of one instruction, and the largest of them.
struct Products {
  double sum = 0;
  float largest = 0;
};

Products multiply(const float* a, const float* b, std::int64_t count) {
  Products products;
  for (std::int64_t i = 0; i < count; ++i) {
    products.sum += double{a[i]} * double{b[i]};
    products.largest = std::max(products.largest, std::abs(a[i] * b[i]));
  }
  return products;
}

// A sum that starts from zero, as the tensor cores carry it.
struct Partial {
  double sum = 0, peaks = 0, squares = 0;
};

Partial accumulate(const float* a, const float* b, std::int64_t count, std::int64_t depth) {
  Partial partial;
  for (std::int64_t k = 0; k < count; k += depth) {
    const Products products = multiply(a + k, b + k, std::min(depth, count - k));
    const double before = std::abs(partial.sum);
    partial.sum += products.sum;
    const double peak = std::max({before, std::abs(partial.sum), double{products.largest}});
    partial.peaks += peak;
    partial.squares += peak * peak;
  }
  return partial;
}

double scale_at(Dtype dtype, const void* scales, std::int64_t index) {
  return load(dtype, scales, static_cast<std::size_t>(index));
}

std::int64_t a_scale_index(const MatmulSpec& spec, const MatmulTensors& tensors, std::int64_t row, std::int64_t block) {
  if (spec.fields.quantization.scale_layout == ScaleLayout::column) return block * tensors.a_scales_stride + row;
  return row * spec.scales_of_row() + block;
}

}  // namespace

std::int64_t instruction_depth(const MatmulSpec& spec) { return 256 / bits(spec.input()); }

std::int64_t interval(const MatmulSpec& spec) {
  const bool promotes = bits(spec.input()) == 8 && spec.fields.dtypes.accumulate == Accumulate::float32;
  return std::min(spec.scaled_depth(), promotes ? kScaleBlock : spec.depth);
}

std::int64_t MatmulSpec::scaled_depth() const noexcept {
  if (scheme() == Scheme::block128) return kScaleBlock;
  return scheme() == Scheme::mxfp8 ? kMxBlock : depth;
}

void decode(Dtype dtype, const void* data, std::int64_t first, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(load(dtype, data, static_cast<std::size_t>(first + i)));
}

std::int64_t source_row(const MatmulSpec& spec, const MatmulTensors& tensors, std::int64_t row) {
  if (!spec.gather_a) return row;
  const std::uint32_t pair = tensors.order[row];
  return pair == kNone ? -1 : static_cast<std::int64_t>(pair) / spec.fields.num_slots();
}

void scales_of(const MatmulSpec& spec, const MatmulTensors& tensors, std::int64_t a_row, std::int64_t expert,
               std::int64_t column, std::vector<double>& out) {
  const Dtype dtype = spec.fields.quantization.scale;
  const std::int64_t blocks = spec.scales_of_row();
  out.assign(static_cast<std::size_t>(blocks), 1.0);
  if (spec.scheme() == Scheme::none || a_row < 0) return;
  if (spec.scheme() == Scheme::tensor) {
    out[0] = scale_at(dtype, tensors.a_scales, 0) * scale_at(dtype, tensors.b_scales, 0);
  } else if (spec.scheme() == Scheme::rowwise) {
    out[0] =
        scale_at(dtype, tensors.a_scales, a_row) * scale_at(dtype, tensors.b_scales, expert * spec.columns + column);
  } else {
    const bool wide = spec.scheme() == Scheme::block128;  // one scale of b for 128 columns, else one for each
    const std::int64_t b_rows = wide ? (spec.columns + kScaleBlock - 1) / kScaleBlock : spec.columns;
    const std::int64_t b_row = expert * b_rows + (wide ? column / kScaleBlock : column);
    for (std::int64_t block = 0; block < blocks; ++block)
      out[static_cast<std::size_t>(block)] =
          scale_at(dtype, tensors.a_scales, a_scale_index(spec, tensors, a_row, block)) *
          scale_at(dtype, tensors.b_scales, b_row * blocks + block);
  }
}

Bounded bound(const MatmulSpec& spec, const SumParts& parts) {
  const auto addends = static_cast<double>(instruction_depth(spec) + 1);
  const std::int64_t count = (spec.depth + interval(spec) - 1) / interval(spec);
  const auto intervals = static_cast<double>(count);
  const double cuts = spec.unit * (parts.peaks + kDeviations * std::sqrt(addends * parts.squares));
  return {parts.sum, cuts + (intervals + 3) * kRounding * (parts.magnitude + cuts)};
}

Bounded matmul_sum(const MatmulSpec& spec, const float* a, const float* b, const std::vector<double>& scales) {
  const std::int64_t depth = instruction_depth(spec), step = interval(spec), per_scale = spec.scaled_depth();
  SumParts parts;
  for (std::int64_t k = 0; k < spec.depth; k += step) {
    const Partial part = accumulate(a + k, b + k, std::min(step, spec.depth - k), depth);
    const double scale = scales[static_cast<std::size_t>(k / per_scale)];
    parts.sum += scale * part.sum;
    parts.peaks += scale * part.peaks;
    parts.squares += scale * scale * part.squares;
    parts.magnitude += scale * std::abs(part.sum);
  }
  return bound(spec, parts);
}

ColumnPair columns_of(const MatmulSpec& spec, std::int64_t column) {
  if (!spec.fuse_activation || !spec.fields.activation.gated) return {column, -1};
  if (spec.fields.activation.gate_layout == GateLayout::interleaved) return {2 * column, 2 * column + 1};
  return {column, column + spec.output_columns};
}

MatmulEpilogue::MatmulEpilogue(const MatmulSpec& spec, const MatmulTensors& tensors) : spec_(spec), tensors_(tensors) {
  const auto place = spec.up ? "/experts/up_epilogue" : "/experts/down_epilogue";
  if (spec.epilogue()) expression_ = parse_at(expression_place(place), *spec.epilogue());
}

Bounded MatmulEpilogue::add_bias(Bounded sum, std::int64_t expert, std::int64_t column) const {
  if (!spec_.fields.experts.bias || expert < 0) return sum;
  const auto index = static_cast<std::size_t>(expert * spec_.columns + column);
  const double value = sum.value + load(spec_.fields.dtypes.activation, tensors_.bias, index);
  return {value, sum.error + kRounding * (std::abs(value) + sum.error)};
}

Bounded MatmulEpilogue::apply_expression(std::int64_t row, std::int64_t expert, std::int64_t column,
                                         Bounded value) const {
  const std::vector<ExpressionInput>& inputs = spec_.epilogue()->inputs;
  std::array<double, 4 + kMaxExpressionInputs> values{value.value, static_cast<double>(row),
                                                      static_cast<double>(column),
                                                      static_cast<double>(model_expert(spec_.fields, expert))};
  const std::array<double, 4 + kMaxExpressionInputs> errors{value.error};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[4 + i] = load(inputs[i].dtype, tensors_.inputs[i],
                         expert_input_index(inputs[i].shape, row, column, spec_.output_columns, expert));
  const std::size_t count = 4 + inputs.size();
  return expression_->evaluate(std::span(values).first(count), std::span(errors).first(count));
}

Bounded MatmulEpilogue::finish(std::int64_t row, std::int64_t expert, std::int64_t column, Bounded gate,
                               Bounded up) const {
  const ColumnPair pair = columns_of(spec_, column);
  Bounded value = add_bias(gate, expert, pair.gate);
  if (spec_.fuse_activation) {
    std::optional<double> limit = spec_.fields.activation.limit;
    if (spec_.fields.activation.limit_per_expert && expert >= 0) limit = double{tensors_.limits[expert]};
    value = activate(spec_.fields.activation, value, pair.up < 0 ? Bounded{} : add_bias(up, expert, pair.up), limit);
  }
  return expression_ ? apply_expression(row, expert, column, value) : value;
}

std::vector<Bounded> matmul_row(const MatmulSpec& spec, const MatmulTensors& tensors, std::int64_t row,
                                std::int64_t expert) {
  const MatmulEpilogue epilogue(spec, tensors);
  const std::int64_t a_row = source_row(spec, tensors, row);
  std::vector<float> a(static_cast<std::size_t>(spec.depth)), b(a.size());
  if (a_row >= 0) decode(spec.input(), tensors.a, a_row * spec.depth, spec.depth, a.data());
  std::vector<double> scales;
  const auto sum = [&](std::int64_t column) -> Bounded {
    if (column < 0 || expert < 0) return {};
    decode(spec.input(), tensors.b[static_cast<std::size_t>(expert)], column * spec.depth, spec.depth, b.data());
    scales_of(spec, tensors, a_row, expert, column, scales);
    return matmul_sum(spec, a.data(), b.data(), scales);
  };
  std::vector<Bounded> out;
  for (std::int64_t column = 0; column < spec.output_columns; ++column) {
    const ColumnPair pair = columns_of(spec, column);
    out.push_back(epilogue.finish(row, expert, column, sum(pair.gate), sum(pair.up)));
  }
  return out;
}

}  // namespace moegen::reference
