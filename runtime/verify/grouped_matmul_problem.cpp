// SPDX-License-Identifier: Apache-2.0
#include "verify/grouped_matmul_problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <moegen/error.hpp>
#include <moegen/shapes.hpp>

#include "reference/expert_rows.hpp"
#include "reference/number.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"
#include "verify/random_codes.hpp"

namespace moegen::verify {
namespace {

using reference::MatmulSpec;

constexpr std::uint32_t kNone = 0xFFFFFFFFu;
constexpr int kNanByte = 0xFF;  // NaN in every dtype, where all bytes of a number are this

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

std::int64_t blocks_of(std::int64_t count, std::int64_t width) { return (count + width - 1) / width; }

Tensor nan_tensor(Dtype dtype, std::int64_t count) {
  return {dtype, std::vector<char>(bytes_of(dtype, count), static_cast<char>(kNanByte)), {}};
}

void fill_codes(const RandomCodes& codes, Dtype dtype, char* data, std::int64_t first, std::int64_t count,
                std::uint64_t seed) {
  const auto begin = static_cast<std::uint64_t>(first), number = static_cast<std::uint64_t>(count);
  if (bits(dtype) == 8)
    codes.fill(reinterpret_cast<std::uint8_t*>(data) + first, begin, number, seed);
  else
    codes.fill(reinterpret_cast<std::uint16_t*>(data) + first, begin, number, seed);
}

// Makes the first and the last 16 bytes of a row larger.
void raise_ends(const RandomCodes& codes, Dtype dtype, char* row, std::int64_t depth) {
  const std::int64_t piece = 128 / bits(dtype);
  for (std::int64_t i = 0; i < 2 * piece; ++i) {
    const std::int64_t at = i < piece ? i : depth - 1 - (i - piece);
    if (at < piece && i >= piece) continue;
    if (bits(dtype) == 8) {
      auto* code = reinterpret_cast<std::uint8_t*>(row) + at;
      *code = static_cast<std::uint8_t>(codes.raise(*code));
    } else {
      auto* code = reinterpret_cast<std::uint16_t*>(row) + at;
      *code = static_cast<std::uint16_t>(codes.raise(*code));
    }
  }
}

// Binades that keep a sum of `depth` products at about 1.
int shrink(std::int64_t depth) { return static_cast<int>(std::log2(static_cast<double>(depth)) / 2) + 1; }

// A positive factor around 2^exponent with all bits of its mantissa in use.
double random_scale(std::uint64_t seed, std::size_t index, int exponent) {
  return std::exp2(2 * random_unit(seed, index) - 1 + exponent);
}

std::int64_t scale_groups(const MatmulSpec& spec) {
  return blocks_of(spec.output_columns, spec.scheme() == Scheme::mxfp8 ? 32 : 128);
}

std::int64_t b_scales_of_expert(const MatmulSpec& spec) {
  if (spec.scheme() == Scheme::rowwise) return spec.columns;
  if (spec.scheme() == Scheme::block128) return blocks_of(spec.columns, 128) * spec.scales_of_row();
  return spec.columns * spec.scales_of_row();
}

bool column_scales(const MatmulSpec& spec) { return spec.fields.quantization.scale_layout == ScaleLayout::column; }

std::size_t c_scales_bytes(const MatmulSpec& spec, std::int64_t rows, std::int64_t stride) {
  if (!spec.fuse_quantize) return 0;
  return bytes_of(spec.fields.quantization.scale, scale_groups(spec) * (column_scales(spec) ? stride : rows));
}

std::int64_t padded_rows(const MatmulSpec& spec, std::int64_t rows) {
  return round_up(rows, 128 / bits(spec.fields.quantization.scale));
}

void store_nan(Tensor& tensor, std::size_t index) {
  reference::store(tensor.dtype, tensor.host.data(), index, std::nan(""));
}

}  // namespace

reference::MatmulSpec matmul_spec(const Kernel& kernel, const Config& config) {
  const Plan& plan = kernel.plan();
  MatmulSpec spec;
  spec.fields = config.fields();
  spec.up = plan.kernel == "grouped_matmul.up";
  spec.depth = plan.integer("depth");
  spec.columns = plan.integer("columns");
  spec.output_columns = plan.integer("output_columns");
  spec.gather_a = plan.boolean("gather_a");
  spec.fuse_activation = plan.boolean("fuse_activation");
  spec.fuse_quantize = plan.boolean("fuse_quantize");
  spec.output = *find_dtype(plan.text("output_dtype"));
  // The CPU target sums in float32 without cuts (docs/cpu_target.md).
  spec.unit = bits(spec.input()) == 8 && kernel.target() == Target::cuda ? 0x1p-13 : 0x1p-23;
  return spec;
}

struct GroupedMatmulProblem::Given {
  const MatmulRows* rows = nullptr;
};

GroupedMatmulProblem::GroupedMatmulProblem(Target target, reference::MatmulSpec spec, GroupedMatmulCase matmul_case)
    : GroupedMatmulProblem(target, std::move(spec), std::move(matmul_case), Given{}) {}

GroupedMatmulProblem::GroupedMatmulProblem(Target target, reference::MatmulSpec spec, GroupedMatmulCase matmul_case,
                                           const MatmulRows& rows)
    : GroupedMatmulProblem(target, std::move(spec), std::move(matmul_case), Given{&rows}) {}

GroupedMatmulProblem::GroupedMatmulProblem(Target target, reference::MatmulSpec spec, GroupedMatmulCase matmul_case,
                                           const Given& given)
    : target_(target),
      spec_(std::move(spec)),
      case_(std::move(matmul_case)),
      before_(case_.first_row),
      behind_(case_.rows_behind),
      num_experts_(num_groups(spec_.fields)),
      c_(target_, "c", bytes_of(spec_.output, case_.num_rows() * spec_.output_columns), GuardedBuffer::kFloatPoison),
      c_scales_(target_, "c_scales", c_scales_bytes(spec_, case_.num_rows(), stride_of(case_.num_rows())),
                GuardedBuffer::kFloatPoison) {
  if (given.rows) {
    take_rows(*given.rows);
  } else {
    make_order();
    make_a();
    if (spec_.scheme() != Scheme::none) make_a_scales();
  }
  make_weights(target_);
  if (spec_.scheme() != Scheme::none) make_b_scales();
  make_epilogue();
  spoil();
  upload(target_);
}

void GroupedMatmulProblem::take_rows(const MatmulRows& rows) {
  order_ = rows.order;
  num_tokens_ = rows.num_rows;
  a_ = {spec_.input(), rows.a, {}};
  a_scales_ = {spec_.fields.quantization.scale, rows.scales, {}};
  tensors_.order = order_.data();
  tensors_.a = a_.host.data();
  tensors_.a_scales = a_scales_.host.data();
  tensors_.a_scales_stride = rows.scales_stride;
}

std::int64_t GroupedMatmulProblem::num_a_rows() const { return spec_.gather_a ? num_tokens_ : case_.num_rows(); }

// Two cases in three have more room between blocks of scales than they need.
std::int64_t GroupedMatmulProblem::stride_of(std::int64_t rows) const {
  const auto extra = static_cast<std::int64_t>(case_.seed % 3);
  return padded_rows(spec_, rows) + extra * padded_rows(spec_, 1);
}

// Distinct pairs in any order; where rows are in no group, some rows of groups are none's, too.
void GroupedMatmulProblem::make_order() {
  if (!spec_.gather_a) return;
  const auto rows = static_cast<std::size_t>(case_.num_rows());
  const auto slots = static_cast<std::size_t>(spec_.fields.num_slots());
  num_tokens_ = static_cast<std::int64_t>((rows + slots - 1) / slots) + 1;
  std::vector<std::uint32_t> pairs(static_cast<std::size_t>(num_tokens_) * slots);
  std::iota(pairs.begin(), pairs.end(), 0u);
  for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[random_below(case_.seed + 7, i, i)]);
  order_.assign(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(rows));
  for (std::size_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::int64_t>(row);
    const bool outside = at < case_.first_row || at >= case_.num_rows() - case_.rows_behind;
    if (outside || (case_.first_row > 0 && row % 7 == 5)) order_[row] = kNone;
  }
  tensors_.order = order_.data();
}

// Rows of a that a group's row is made of.
std::vector<bool> GroupedMatmulProblem::used_rows() const {
  std::vector<bool> used(static_cast<std::size_t>(num_a_rows()));
  for (std::int64_t row = case_.first_row; row < case_.num_rows() - case_.rows_behind; ++row)
    if (const std::int64_t source = reference::source_row(spec_, tensors_, row); source >= 0)
      used[static_cast<std::size_t>(source)] = true;
  return used;
}

void GroupedMatmulProblem::make_a() {
  const std::vector<bool> used = used_rows();
  const RandomCodes codes(spec_.input(), 0);
  const std::size_t row_bytes = bytes_of(spec_.input(), spec_.depth);
  a_ = nan_tensor(spec_.input(), num_a_rows() * spec_.depth);
  parallel_for(num_a_rows(), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (!used[static_cast<std::size_t>(row)]) continue;
      fill_codes(codes, spec_.input(), a_.host.data(), row * spec_.depth, spec_.depth, case_.seed);
      raise_ends(codes, spec_.input(), a_.host.data() + static_cast<std::size_t>(row) * row_bytes, spec_.depth);
    }
  });
  tensors_.a = a_.host.data();
}

void GroupedMatmulProblem::make_weights(Target target) {
  const std::size_t expert_bytes = bytes_of(spec_.input(), spec_.columns * spec_.depth);
  const RandomCodes codes(spec_.input(), spec_.scheme() == Scheme::none ? -shrink(spec_.depth) : 0);
  b_ = Memory(target, "b", expert_bytes * static_cast<std::size_t>(num_experts_));
  b_.fill(kNanByte);
  experts_.resize(static_cast<std::size_t>(num_experts_));
  tensors_.b.assign(experts_.size(), nullptr);
  for (const std::int32_t id : case_.used_experts()) {
    std::vector<char>& expert = experts_[static_cast<std::size_t>(id)];
    expert.resize(expert_bytes);
    parallel_for(spec_.columns, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t column = begin; column < end; ++column)
        fill_codes(codes, spec_.input(), expert.data(), column * spec_.depth, spec_.depth,
                   case_.seed + 100 + static_cast<std::uint64_t>(id));
    });
    tensors_.b[static_cast<std::size_t>(id)] = expert.data();
  }
}

void GroupedMatmulProblem::make_a_scales() {
  const Dtype dtype = spec_.fields.quantization.scale;
  const bool one = spec_.scheme() == Scheme::tensor, column = column_scales(spec_);
  const std::int64_t rows = num_a_rows(), blocks = spec_.scheme() == Scheme::rowwise ? 1 : spec_.scales_of_row();
  tensors_.a_scales_stride = stride_of(rows);
  a_scales_ = nan_tensor(dtype, one ? 1 : blocks * (column ? tensors_.a_scales_stride : rows));
  const std::vector<bool> used = used_rows();
  for (std::int64_t row = 0; row < (one ? 1 : rows); ++row)
    for (std::int64_t block = 0; block < blocks && (one || used[static_cast<std::size_t>(row)]); ++block) {
      const auto at = static_cast<std::size_t>(column ? block * tensors_.a_scales_stride + row : row * blocks + block);
      reference::store(dtype, a_scales_.host.data(), at, random_scale(case_.seed + 1, at, 0));
    }
  tensors_.a_scales = a_scales_.host.data();
}

void GroupedMatmulProblem::make_b_scales() {
  const Dtype dtype = spec_.fields.quantization.scale;
  const int exponent = -shrink(spec_.depth);
  const bool one = spec_.scheme() == Scheme::tensor;
  const std::int64_t of_expert = one ? 1 : b_scales_of_expert(spec_);
  b_scales_ = nan_tensor(dtype, one ? 1 : of_expert * num_experts_);
  for (const std::int32_t id : one ? std::vector<std::int32_t>{0} : case_.used_experts())
    for (std::int64_t i = 0; i < of_expert; ++i) {
      const auto at = static_cast<std::size_t>(id * of_expert + i);
      reference::store(dtype, b_scales_.host.data(), at, random_scale(case_.seed + 2, at, exponent));
    }
  tensors_.b_scales = b_scales_.host.data();
}

void GroupedMatmulProblem::make_epilogue() {
  const Dtype activation = spec_.fields.dtypes.activation;
  const std::vector<std::int32_t> used = case_.used_experts();
  if (spec_.fields.experts.bias) {
    bias_ = nan_tensor(activation, num_experts_ * spec_.columns);
    for (const std::int32_t id : used)
      for (std::int64_t column = 0; column < spec_.columns; ++column) {
        const auto at = static_cast<std::size_t>(id * spec_.columns + column);
        reference::store(activation, bias_.host.data(), at, 2 * random_unit(case_.seed + 3, at) - 1);
      }
    tensors_.bias = bias_.host.data();
  }
  if (spec_.fields.activation.limit_per_expert) {
    limits_ = nan_tensor(Dtype::float32, num_experts_);
    for (const std::int32_t id : used)
      reference::store(Dtype::float32, limits_.host.data(), static_cast<std::size_t>(id), 0.5 + 0.125 * (id % 8));
    tensors_.limits = reinterpret_cast<const float*>(limits_.host.data());
  }
  if (!spec_.epilogue()) return;
  for (const ExpressionInput& input : spec_.epilogue()->inputs)
    named_.push_back(random_tensor(
        input.dtype, reference::expert_input_count(input.shape, case_.num_rows(), spec_.output_columns, num_experts_),
        case_.seed + 11 + named_.size()));
  for (const Tensor& tensor : named_) tensors_.inputs.push_back(tensor.host.data());
}

void GroupedMatmulProblem::spoil() {
  const std::vector<std::int32_t> used = case_.used_experts();
  if (case_.spoil == MatmulSpoil::none || used.empty()) return;
  const auto depth = static_cast<std::size_t>(spec_.depth), columns = static_cast<std::size_t>(spec_.columns);
  if (case_.spoil == MatmulSpoil::rows) {
    const std::vector<bool> rows = used_rows();
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t row = random_below(case_.seed + 4, i, rows.size());
      if (!rows[row]) continue;
      const auto scales = static_cast<std::size_t>(spec_.scales_of_row());
      if (i == 2 && (spec_.scheme() == Scheme::rowwise || spec_.scheme() == Scheme::mxfp8))
        store_nan(a_scales_, row * scales + random_below(case_.seed + 5, i, scales));
      else
        store_nan(a_, row * depth + (i == 0 ? depth - 1 : random_below(case_.seed + 5, i, depth)));
    }
    return;
  }
  const auto expert = static_cast<std::size_t>(used[used.size() / 2]);
  const bool by_expert = spec_.scheme() != Scheme::none && spec_.scheme() != Scheme::tensor;
  if (case_.spoil == MatmulSpoil::scales && by_expert) {
    const auto count = static_cast<std::size_t>(b_scales_of_expert(spec_));
    for (std::size_t i = 0; i < count; ++i) store_nan(b_scales_, expert * count + i);
    return;
  }
  for (std::size_t column = 0; column < columns; ++column)
    reference::store(spec_.input(), experts_[expert].data(), column * depth + column * 7 % depth, std::nan(""));
}

void GroupedMatmulProblem::upload(Target target) {
  a_.upload(target, "a");
  a_scales_.upload(target, "a_scales");
  b_scales_.upload(target, "b_scales");
  bias_.upload(target, "bias");
  limits_.upload(target, "limits");
  for (std::size_t i = 0; i < named_.size(); ++i) named_[i].upload(target, fmt::format("inputs[{}]", i));
  order_device_ = Memory::of(target, "order", order_);
  for (std::size_t id = 0; id < experts_.size(); ++id)
    if (!experts_[id].empty()) b_.upload(experts_[id].data(), experts_[id].size(), id * experts_[id].size());
  upload_groups(target);
}

void GroupedMatmulProblem::upload_groups(Target target) {
  offsets_ = Memory::of(target, "a_offsets", case_.offsets());
  ids_ = Memory::of(target, "expert_ids", case_.ids);
}

void GroupedMatmulProblem::regroup(GroupedMatmulCase other) {
  const bool same = other.num_rows() == case_.num_rows() && other.ids.size() == case_.ids.size() &&
                    other.first_row >= before_ && other.rows_behind >= behind_ &&
                    std::ranges::all_of(other.used_experts(), [&](std::int32_t id) {
                      return !experts_[static_cast<std::size_t>(id)].empty();
                    });
  if (!same) throw Error(ErrorCode::internal, "regroup: rows, groups or experts that this problem has not");
  case_ = std::move(other);
  const std::vector<std::uint32_t> offsets = case_.offsets();
  offsets_.upload(offsets.data(), offsets_.size());
  ids_.upload(case_.ids.data(), ids_.size());
  check_.reset();
}

grouped_matmul::Args GroupedMatmulProblem::args() const {
  grouped_matmul::Args args{};
  const bool strided = case_.seed % 3 != 0 || spec_.gather_a;
  args.c = c_.data();
  args.c_scales = spec_.fuse_quantize ? c_scales_.data() : nullptr;
  args.a = a_.device.data();
  args.b = b_.data();
  args.a_scales = a_scales_.device.data();
  args.b_scales = b_scales_.device.data();
  args.a_offsets = offsets_.data<std::uint32_t>();
  args.expert_ids = ids_.data<std::int32_t>();
  args.bias = bias_.device.data();
  args.limits = spec_.fuse_activation ? limits_.device.data<float>() : nullptr;
  args.order = order_device_.data<std::uint32_t>();
  for (std::size_t i = 0; i < named_.size(); ++i) args.inputs[i] = named_[i].device.data();
  args.num_rows = case_.num_rows();
  args.num_groups = std::ssize(case_.ids);
  args.a_scales_stride = strided ? tensors_.a_scales_stride : 0;
  args.c_scales_stride = strided ? stride_of(case_.num_rows()) : 0;
  args.max_num_tokens_per_expert = args.num_active_experts = -1;
  if (!case_.hints) return args;
  args.max_num_tokens_per_expert = case_.counts.empty() ? 0 : *std::ranges::max_element(case_.counts);
  args.num_active_experts = std::ranges::count_if(case_.counts, [](std::int64_t count) { return count > 0; });
  return args;
}

void GroupedMatmulProblem::reset() const {
  c_.reset();
  c_scales_.reset();
}

void GroupedMatmulProblem::run(const Kernel& kernel) const {
  reset();
  run_to_end(kernel, args());
}

std::optional<std::string> GroupedMatmulProblem::compare(const SumSource& sums, std::int64_t budget) {
  if (auto damage = c_.damage()) return damage;
  if (auto damage = c_scales_.damage()) return damage;
  if (!check_) check_ = std::make_unique<GroupedMatmulCheck>(spec_, tensors_, case_, budget);
  const std::vector<char> c = c_.download(), scales = c_scales_.download();
  return check_->compare({c, scales, stride_of(case_.num_rows())}, sums ? sums : host_sums(spec_, tensors_));
}

std::size_t GroupedMatmulProblem::row_bytes() const noexcept { return bytes_of(spec_.output, spec_.output_columns); }

}  // namespace moegen::verify
