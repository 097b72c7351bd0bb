// SPDX-License-Identifier: Apache-2.0
// grouped_matmul in plain float64 code on the dequantised inputs, with a bound for each element. Shares nothing with
// the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/dtype.hpp>

#include "expression.hpp"

namespace moegen::reference {

/// What one grouped_matmul computes: a config and what a plan decided where the config says "auto".
/// Names as in templates/grouped_matmul/args.h.
struct MatmulSpec {
  ConfigFields fields;
  bool up = true;                   ///< the up projection, else the down projection
  std::int64_t depth = 0;           ///< K
  std::int64_t columns = 0;         ///< N
  std::int64_t output_columns = 0;  ///< C
  bool gather_a = false, fuse_activation = false, fuse_quantize = false;
  Dtype output = Dtype::bfloat16;
  /// What a float32 sum of tensor cores keeps of its largest addend; see matmul_sum.
  double unit = 0x1p-23;

  Scheme scheme() const noexcept { return fields.quantization.scheme; }
  Dtype input() const noexcept { return fields.dtypes.weight; }  ///< of a and b
  /// K that one scale of a covers: 128 (block128), 32 (mxfp8), else all of K.
  std::int64_t scaled_depth() const noexcept;
  std::int64_t scales_of_row() const noexcept { return (depth + scaled_depth() - 1) / scaled_depth(); }
  /// up_epilogue follows the activation: where that is a kernel of its own, it is that kernel's.
  const ExpressionConfig* epilogue() const noexcept {
    const auto& own = up ? fields.experts.up_epilogue : fields.experts.down_epilogue;
    return own && (!up || fuse_activation) ? &*own : nullptr;
  }
};

/// Host copies of a call's tensors, in the dtypes of the config; what the call does not use may be null.
struct MatmulTensors {
  const void* a = nullptr;         ///< [rows of a, K]
  std::vector<const void*> b;      ///< by expert: [N, K]; null where no group names it
  const void* a_scales = nullptr;  ///< as the argument struct has it
  const void* b_scales = nullptr;
  const void* bias = nullptr;     ///< [E, N]
  const float* limits = nullptr;  ///< [E]
  const std::uint32_t* order = nullptr;
  std::vector<const void*> inputs;
  std::int64_t a_scales_stride = 0;  ///< of scale_layout column, resolved: never 0
};

/// `count` elements from `first` on, as float32 (exact for every dtype here).
void decode(Dtype dtype, const void* data, std::int64_t first, std::int64_t count, float* out);

/// The row of a that row `row` of c is made of, or -1 for a row of zeros.
std::int64_t source_row(const MatmulSpec& spec, const MatmulTensors& tensors, std::int64_t row);

/// The factors of one element of c: one for each scaled_depth() of K. `a_row` may be -1.
void scales_of(const MatmulSpec& spec, const MatmulTensors& tensors, std::int64_t a_row, std::int64_t expert,
               std::int64_t column, std::vector<double>& out);

/// sum over k of a[k] * b[k] * scale(k), a and b of `depth` decoded elements, and how far tensor cores may be from it.
///
/// The bound. One instruction adds d products (16 of 16-bit floats, 32 of 8-bit ones) to an accumulator: it aligns all
/// addends to the largest, peak, and cuts what lies below `unit` * peak. unit is 2^-23 for 16-bit inputs and 2^-13 for
/// float8 on Hopper (DeepSeek-V3's technical report, section 3.5.2: 14 bits of each product). The accumulator is always
/// cut towards zero, which adds up: unit * peak an instruction. The cuts of the products have the products' random
/// signs: their sum stays below 8 * unit * sqrt((d + 1) * sum of peak^2) but for one element in 10^13 (Hoeffding's
/// inequality for terms within +-unit * peak: 2 exp(-8^2 / 2)). Where partial sums move to float32 registers (every 128
/// of K with accumulate float32 and float8, every scale block), the next one starts from zero: peak is that of its own.
/// Adding n of them and scaling costs (n + 3) roundings of 2^-24.
Bounded matmul_sum(const MatmulSpec& spec, const float* a, const float* b, const std::vector<double>& scales);

/// What matmul_sum gathers on its way, each scaled: for references that run elsewhere.
struct SumParts {
  double sum = 0, peaks = 0, squares = 0, magnitude = 0;
};
std::int64_t instruction_depth(const MatmulSpec& spec);  ///< d
std::int64_t interval(const MatmulSpec& spec);           ///< K that is summed before a sum moves to other registers
Bounded bound(const MatmulSpec& spec, const SumParts& parts);

/// The one or two columns of N that output column `column` is made of; `up` is -1 where there is only one.
struct ColumnPair {
  std::int64_t gate = 0, up = -1;
};
ColumnPair columns_of(const MatmulSpec& spec, std::int64_t column);

/// From sums to the float32 value before the cast: bias, activation, user expression, in float64. Thread-safe.
/// `tensors` must outlive it.
class MatmulEpilogue {
 public:
  MatmulEpilogue(const MatmulSpec& spec, const MatmulTensors& tensors);

  /// Element [row, column] of c. `expert`: the group's entry of expert_ids. `gate`: the sum of columns_of(column).gate,
  /// `up` that of the other one.
  Bounded finish(std::int64_t row, std::int64_t expert, std::int64_t column, Bounded gate, Bounded up) const;

 private:
  Bounded add_bias(Bounded sum, std::int64_t expert, std::int64_t column) const;
  Bounded apply_expression(std::int64_t row, std::int64_t expert, std::int64_t column, Bounded value) const;

  const MatmulSpec& spec_;
  const MatmulTensors& tensors_;
  std::optional<Expression> expression_;
};

/// A whole row of the result before rounding or quantisation: slow, for small cases and tests of the reference.
std::vector<Bounded> matmul_row(const MatmulSpec& spec, const MatmulTensors& tensors, std::int64_t row,
                                std::int64_t expert);

}  // namespace moegen::reference
