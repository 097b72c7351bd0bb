// SPDX-License-Identifier: Apache-2.0
// grouped_matmul, epilogue: from a sum over K to a value of c. In order: scales, bias, activation, user expression, all
// on floats; then one rounding. `Custom` is what a config adds: activate(...) and epilogue(args, value, row, column,
// expert).
#pragma once

#include "../core/convert.cuh"
#include "../core/math.cuh"
#include "pipeline.cuh"

namespace moegen::grouped_matmul {

/// Row of b that column `column` of c comes from; `up`: its second one, where gate and up are multiplied together.
template <class P>
MOEGEN_DEVICE uint32_t weight_row(uint32_t column, bool up) {
  if constexpr (!P::gated) return column;
  if constexpr (P::halves) return up ? P::output_columns + column : column;
  return 2 * column + (up ? 1 : 0);
}

/// Row of b at row `row` of a tile with weights in groups of 8 rows of gate and the 8 of up that belong to them; past
/// the last: none.
template <class P, class T>
MOEGEN_DEVICE uint32_t tile_weight_row(const Tile& tile, uint32_t row) {
  const uint32_t first = tile.unit * T::tile_columns;
  if constexpr (!P::gated) return first + row < P::columns ? first + row : kNone;
  const uint32_t column = first + row / 16 * 8 + row % 8;
  return column < P::output_columns ? weight_row<P>(column, row / 8 % 2 == 1) : kNone;
}

/// What the columns of one row of b share. A tile without an expert has neither scale nor bias.
template <class P>
struct ColumnTerms {
  float scale = 1.0f, bias = 0.0f;
  MOEGEN_DEVICE void load(const Args& args, int32_t expert, uint32_t column, bool up) {
    if (expert < 0 || column >= P::output_columns) return;
    const uint64_t index = static_cast<uint64_t>(expert) * P::columns + weight_row<P>(column, up);
    if constexpr (P::rowwise) scale = static_cast<const float*>(args.b_scales)[index];
    if constexpr (P::tensor_scales) scale = *static_cast<const float*>(args.b_scales);
    if constexpr (P::bias) bias = to_float(static_cast<const typename P::bias_dtype*>(args.bias)[index]);
  }
};

/// Row of a of token `token` of the tile; kNone for one past its end, and for an unused place of the order.
template <class P>
MOEGEN_DEVICE uint32_t source_row(const Args& args, const Tile& tile, uint32_t token) {
  if (token >= tile.rows) return kNone;
  if constexpr (!P::gather_a) return tile.row + token;
  const uint32_t pair = args.order[tile.row + token];
  return pair == kNone ? kNone : pair / P::num_slots;
}

/// Scale of a row of a.
template <class P>
MOEGEN_DEVICE float token_scale(const Args& args, const Tile& tile, uint32_t token) {
  const uint32_t row = source_row<P>(args, tile, token);
  if (tile.expert < 0 || row == kNone) return 1.0f;
  if constexpr (P::rowwise) return static_cast<const float*>(args.a_scales)[row];
  if constexpr (P::tensor_scales) return *static_cast<const float*>(args.a_scales);
  return 1.0f;
}

/// Scales and bias of one sum. Products are rounded by themselves, so that all plans have the same bits.
template <class P>
MOEGEN_DEVICE float scaled(float sum, float token, const ColumnTerms<P>& terms) {
  if constexpr (P::rowwise || P::tensor_scales) sum = math::multiply(math::multiply(sum, token), terms.scale);
  if constexpr (P::bias) sum += terms.bias;
  return sum;
}

/// What is stored of token `token` of the tile at `column` of c, from one sum or from gate's and up's. Places outside
/// the tile have values that nobody stores; the user's expression is computed with the last place instead, since a
/// branch for each value would take half of the kernel's compile time.
template <class P, class Custom>
MOEGEN_DEVICE float finished(const Args& args, const Tile& tile, uint32_t token, uint32_t column, float value,
                             float up) {
  if constexpr (P::gated)
    value = Custom::activate(args, value, up, tile.expert);
  else if constexpr (P::fuse_activation)
    value = Custom::activate(value);
  if constexpr (P::epilogue) {
    value = Custom::epilogue(args, value, uint64_t{tile.row} + min_of(token, tile.rows - 1),
                             min_of<uint32_t>(column, P::output_columns - 1), tile.expert);
    if (P::fuse_quantize && column >= P::output_columns) value = 0.0f;  // no part of its group's scale
  }
  return value;
}

}  // namespace moegen::grouped_matmul
