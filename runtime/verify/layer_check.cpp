// SPDX-License-Identifier: Apache-2.0
#include "verify/layer_check.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <moegen/shapes.hpp>

#include "reference/number.hpp"
#include "reference/quantize.hpp"
#include "verify/parallel.hpp"
#include "verify/tensor.hpp"

namespace moegen::verify {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;
constexpr double kMostCode = 448;  // of float8_e4m3fn
constexpr double kDeviations = 8;

double squared(double value) { return value * value; }

reference::MatmulSpec with_activation(reference::MatmulSpec spec) {
  spec.fuse_activation = true;
  spec.output_columns = spec.fields.intermediate;
  return spec;
}

std::vector<float> as_floats(Dtype dtype, const void* data, std::int64_t count) {
  std::vector<float> values(data ? static_cast<std::size_t>(count) : 0);
  if (data) reference::decode(dtype, data, 0, count, values.data());
  return values;
}

/// `tensors` with `ones` for the scales of one row of a.
reference::MatmulTensors unscaled(reference::MatmulTensors tensors, const std::vector<char>& ones) {
  tensors.a_scales = ones.data();
  tensors.a_scales_stride = 1;
  return tensors;
}

std::vector<char> make_ones(Dtype dtype, std::int64_t count) {
  std::vector<char> ones(bytes_of(dtype, count));
  for (std::int64_t i = 0; i < count; ++i) reference::store(dtype, ones.data(), static_cast<std::size_t>(i), 1.0);
  return ones;
}

/// Columns that one scale covers.
std::int64_t group_of(Scheme scheme, std::int64_t width) {
  if (scheme == Scheme::block128) return 128;
  return scheme == Scheme::mxfp8 ? 32 : width;
}

}  // namespace

LayerCheck::LayerCheck(LayerTensors tensors, std::int64_t budget)
    : tensors_(std::move(tensors)),
      up_(with_activation(tensors_.up)),
      activate_(up_, tensors_.up_tensors),
      finish_(tensors_.down, tensors_.down_tensors),
      ones_(make_ones(tensors_.fields.quantization.scale,
                      std::max(tensors_.up.scales_of_row(), tensors_.down.scales_of_row()))),
      shared_(as_floats(tensors_.fields.finalize.down, tensors_.finalize.shared,
                        tensors_.num_tokens * tensors_.fields.expert_hidden)),
      bias_(as_floats(tensors_.fields.finalize.down, tensors_.finalize.bias,
                      num_groups(tensors_.fields) * tensors_.fields.expert_hidden)) {
  choose_tokens(budget);
}

// Spread over the batch, the last one among them.
void LayerCheck::choose_tokens(std::int64_t budget) {
  const std::int64_t of_row = tensors_.up.columns * tensors_.up.depth + tensors_.down.columns * tensors_.down.depth;
  const std::int64_t of_token = 2 * of_row * tensors_.fields.num_slots();  // products, and squares of spreads
  const std::int64_t count = std::clamp<std::int64_t>(budget / of_token, 1, tensors_.num_tokens);
  for (std::int64_t i = 1; i <= count; ++i) tokens_.push_back(tensors_.num_tokens * i / count - 1);
}

void LayerCheck::round(Dtype dtype, Row& row) const {
  for (std::size_t i = 0; i < row.value.size(); ++i)
    row.square[i] += squared(reference::half_ulp(dtype, std::abs(row.value[i])));
}

// Codes under the scales that the values ask for. What no code reaches under a given scale saturates, by definition.
void LayerCheck::quantise(float global, Row& row) const {
  const QuantizationConfig& config = tensors_.fields.quantization;
  const auto width = static_cast<std::int64_t>(row.value.size()), step = group_of(config.scheme, width);
  for (std::int64_t first = 0; first < width; first += step) {
    const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(std::min(width, first + step));
    double most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(row.value[i]));
    const double scale =
        config.scheme == Scheme::tensor ? double{global} : reference::e4m3_scale(most, config.floor, config.scale);
    for (std::size_t i = begin; i < end; ++i) {
      row.value[i] = std::clamp(row.value[i], -kMostCode * scale, kMostCode * scale);
      row.square[i] += squared(scale * reference::half_ulp(Dtype::float8_e4m3fn, std::abs(row.value[i]) / scale));
    }
  }
}

void LayerCheck::pass_on(const RowsOnTheWay& way, Row& row) const {
  if (way.stored) round(tensors_.fields.dtypes.activation, row);
  if (way.quantised) quantise(way.global, row);
}

LayerCheck::Row LayerCheck::input_row(std::int64_t pair) const {
  const ConfigFields& fields = tensors_.fields;
  const auto width = static_cast<std::size_t>(fields.expert_hidden),
             token = static_cast<std::size_t>(pair / fields.num_slots());
  const bool weighted = fields.experts.weights_on_input;
  const double weight =
      weighted ? reference::load(fields.router.weights, tensors_.weights.data(), static_cast<std::size_t>(pair)) : 1.0;
  Row row = {std::vector<double>(width), std::vector<double>(width)};
  for (std::size_t i = 0; i < width; ++i)
    row.value[i] = weight * reference::load(fields.dtypes.activation, tensors_.x.data(), token * width + i);
  pass_on(tensors_.to_up, row);
  return row;
}

LayerCheck::Row LayerCheck::project(const reference::MatmulSpec& spec, const reference::MatmulTensors& tensors,
                                    std::int32_t expert, const Row& in) const {
  const reference::MatmulTensors plain = unscaled(tensors, ones_);
  const auto depth = static_cast<std::size_t>(spec.depth), columns = static_cast<std::size_t>(spec.columns);
  std::vector<float> a(depth);
  for (std::size_t k = 0; k < depth; ++k) a[k] = static_cast<float>(in.value[k]);
  Row out = {std::vector<double>(columns), std::vector<double>(columns)};
  if (expert < 0) return out;
  parallel_for(spec.columns, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> b(depth);
    std::vector<double> scales;
    for (std::int64_t column = begin; column < end; ++column) {
      reference::decode(spec.input(), tensors.b[static_cast<std::size_t>(expert)], column * spec.depth, spec.depth,
                        b.data());
      reference::scales_of(spec, plain, 0, expert, column, scales);
      const Bounded sum = reference::matmul_sum(spec, a.data(), b.data(), scales);
      double square = squared(sum.error);
      for (std::size_t k = 0; k < depth; ++k)
        square += in.square[k] * squared(b[k] * scales[k / static_cast<std::size_t>(spec.scaled_depth())]);
      out.value[static_cast<std::size_t>(column)] = sum.value;
      out.square[static_cast<std::size_t>(column)] = square;
    }
  });
  return out;
}

// Where the activation is a kernel of its own it reads sums (with their bias, of size 1) in dtypes.activation.
LayerCheck::Row LayerCheck::activated(std::int64_t row, std::int32_t expert, const Row& sums) const {
  const auto width = static_cast<std::size_t>(up_.output_columns);
  Row out = {std::vector<double>(width), std::vector<double>(width)};
  const auto sum_at = [&](std::int64_t column) -> Bounded {
    if (column < 0) return {};
    const auto at = static_cast<std::size_t>(column);
    const double most = std::abs(sums.value[at]) + (tensors_.fields.experts.bias ? 1 : 0);
    const double stored =
        tensors_.up.fuse_activation ? 0 : squared(reference::half_ulp(tensors_.fields.dtypes.activation, most));
    return {sums.value[at], std::sqrt(sums.square[at] + stored)};
  };
  for (std::size_t i = 0; i < width; ++i) {
    const auto column = static_cast<std::int64_t>(i);
    const reference::ColumnPair pair = reference::columns_of(up_, column);
    const Bounded value = activate_.finish(row, expert, column, sum_at(pair.gate), sum_at(pair.up));
    out.value[i] = value.value;
    out.square[i] = squared(value.error);
  }
  return out;
}

LayerCheck::Row LayerCheck::finished(std::int64_t row, std::int32_t expert, const Row& sums) const {
  Row out = sums;
  for (std::size_t i = 0; i < out.value.size(); ++i) {
    const Bounded value =
        finish_.finish(row, expert, static_cast<std::int64_t>(i), {sums.value[i], std::sqrt(sums.square[i])}, {});
    out.value[i] = value.value;
    out.square[i] = squared(value.error);
  }
  round(tensors_.fields.finalize.down, out);
  return out;
}

LayerCheck::Row LayerCheck::expert_row(std::int64_t row, std::int64_t pair, std::int32_t expert) const {
  Row hidden = activated(row, expert, project(tensors_.up, tensors_.up_tensors, expert, input_row(pair)));
  pass_on(tensors_.to_down, hidden);
  return finished(row, expert, project(tensors_.down, tensors_.down_tensors, expert, hidden));
}

// The sum over slots by the reference of finalize, on rows in float32: 2^-24 of them is nothing here.
reference::FinalizeRow LayerCheck::output_row(std::int64_t token, std::vector<float>& down) const {
  ConfigFields fields = tensors_.fields;
  const std::optional<ExpressionConfig> epilogue = std::exchange(fields.finalize.epilogue, std::nullopt);
  fields.finalize.down = Dtype::float32;
  const auto width = static_cast<std::size_t>(fields.expert_hidden);
  const bool applied = fields.finalize.weights_applied || fields.experts.weights_on_input;
  const reference::Indices& indices = tensors_.indices;
  std::vector<double> square(width);
  for (std::int64_t slot = 0; slot < fields.num_slots(); ++slot) {
    const std::int64_t pair = token * fields.num_slots() + slot;
    const std::uint32_t row = indices.restore_token_order[static_cast<std::size_t>(pair)];
    if (row == kNone) continue;
    const auto after = std::ranges::upper_bound(indices.expert_start_indices, row);
    const std::int32_t expert =
        indices.expert_ids[static_cast<std::size_t>(after - indices.expert_start_indices.begin() - 1)];
    const Row one = expert_row(row, pair, expert);
    const double weight =
        applied ? 1.0 : reference::load(fields.router.weights, tensors_.weights.data(), static_cast<std::size_t>(pair));
    for (std::size_t i = 0; i < width; ++i) {
      down[row * width + i] = static_cast<float>(one.value[i]);
      square[i] += one.square[i] * weight * weight;
    }
  }
  reference::FinalizeInputs inputs = tensors_.finalize;
  inputs.down = down.data();
  inputs.shared = shared_.data();
  inputs.bias = bias_.data();
  reference::FinalizeRow out;
  reference::finalize_row(fields, inputs, token, out);
  for (std::size_t i = 0; i < width; ++i) out.error[i] = std::sqrt(squared(out.error[i]) + square[i]);
  if (epilogue) reference::finalize_epilogue(*epilogue, inputs, token, out);
  for (std::size_t i = 0; i < width; ++i)
    out.error[i] = std::hypot(out.error[i], reference::half_ulp(fields.finalize.output, std::abs(out.value[i])));
  return out;
}

std::optional<std::string> LayerCheck::compare_token(std::int64_t token, const reference::FinalizeRow& want,
                                                     const std::vector<char>& output) const {
  const auto width = want.value.size();
  double difference = 0, spread = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const double got =
        reference::load(tensors_.fields.finalize.output, output.data(), static_cast<std::size_t>(token) * width + i);
    if (!(std::abs(got - want.value[i]) <= kDeviations * want.error[i]))
      return fmt::format("output[{}, {}]: got {:.9g}, the layer in float64 gives {:.9g} with a spread of {:.3g}", token,
                         i, got, want.value[i], want.error[i]);
    difference += squared(got - want.value[i]);
    spread += squared(want.error[i]);
  }
  if (difference <= spread) return std::nullopt;
  return fmt::format(
      "output[{}, ...]: the norm of the difference from the layer in float64 is {:.3g}, that of the "
      "spreads {:.3g}",
      token, std::sqrt(difference), std::sqrt(spread));
}

std::optional<std::string> LayerCheck::compare(const std::vector<char>& output) const {
  std::vector<float> down(static_cast<std::size_t>(tensors_.indices.expert_start_indices.back()) *
                          static_cast<std::size_t>(tensors_.fields.expert_hidden));
  for (const std::int64_t token : tokens_)
    if (auto wrong = compare_token(token, output_row(token, down), output)) return wrong;
  return std::nullopt;
}

}  // namespace moegen::verify
