// SPDX-License-Identifier: Apache-2.0
#include "verify/finalize_problem.hpp"

#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <moegen/shapes.hpp>

#include "reference/number.hpp"
#include "verify/acceptable.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"

namespace moegen::verify {
namespace {

constexpr std::int64_t kUnusedRows = 3;  // NaN rows that no pair names

bool is_zero_expert(const ConfigFields& fields, std::int64_t id) {
  return id >= fields.num_experts && id < fields.num_experts + fields.num_zero_experts;
}

Tensor ids_tensor(Dtype dtype, const std::vector<std::int64_t>& ids) {
  Tensor tensor{dtype, std::vector<char>(bytes_of(dtype, static_cast<std::int64_t>(ids.size()))), {}};
  for (std::size_t pair = 0; pair < ids.size(); ++pair)
    reference::store_integer(dtype, tensor.host.data(), pair, ids[pair]);
  return tensor;
}

// Some weights are zero.
void spoil_weights(const ConfigFields& fields, const Routing& routing, Tensor& weights) {
  for (std::size_t pair = 0; pair < routing.restore.size(); ++pair) {
    if (pair % 11 == 5) reference::store(weights.dtype, weights.host.data(), pair, 0.0);
    if (routing.restore[pair] == kNoRow && !is_zero_expert(fields, routing.ids[pair]))
      reference::store(weights.dtype, weights.host.data(), pair, std::nan(""));
  }
}

void spoil_rows(const ConfigFields& fields, std::int64_t rows, std::uint64_t seed, Tensor& down) {
  const auto width = static_cast<std::size_t>(fields.expert_hidden);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::size_t row = random_below(seed, i, static_cast<std::uint64_t>(rows));
    for (std::size_t h = i; h < width; h += 3)
      reference::store(down.dtype, down.host.data(), row * width + h,
                       h % 2 == 0 ? std::nan("") : std::numeric_limits<double>::infinity());
  }
}

std::int64_t named_count(const ExpressionInput& input, std::int64_t tokens, std::int64_t width) {
  if (input.shape == "tokens") return tokens;
  if (input.shape == "columns") return width;
  return input.shape == "scalar" ? 1 : tokens * width;
}

std::int64_t count_tokens(const ConfigFields& fields, const Routing& routing) {
  return static_cast<std::int64_t>(routing.restore.size()) / fields.num_slots();
}

}  // namespace

FinalizeProblem::FinalizeProblem(Target target, const Config& config, Routing routing, const FinalizeOptions& options)
    : config_(config),
      routing_(std::move(routing)),
      num_tokens_(count_tokens(config.fields(), routing_)),
      output_(target, "output", bytes_of(config->finalize.output, num_tokens_ * config->expert_hidden),
              GuardedBuffer::kFloatPoison) {
  make_tensors(options);
  upload(target, options.row_stride);
}

void FinalizeProblem::make_tensors(const FinalizeOptions& options) {
  const ConfigFields& fields = config_.fields();
  const std::uint64_t seed = options.seed;
  const std::int64_t width = fields.expert_hidden, cells = num_tokens_ * width;
  down_ = random_tensor(fields.finalize.down, routing_.rows * width, seed);
  weights_ = random_tensor(fields.router.weights, static_cast<std::int64_t>(routing_.restore.size()), seed + 1);
  ids_ = ids_tensor(fields.indices.ids, routing_.ids);
  if (options.weights)
    weights_.host = *options.weights;
  else
    spoil_weights(fields, routing_, weights_);
  if (options.down) down_.host = *options.down;
  if (options.spoil_rows && routing_.rows > 0) spoil_rows(fields, routing_.rows, seed + 3, down_);
  if (fields.num_zero_experts > 0) x_ = random_tensor(fields.dtypes.activation, cells, seed + 4);
  if (fields.num_zero_experts > 0 && options.x) x_.host = *options.x;
  if (fields.finalize.residual) residual_ = random_tensor(fields.dtypes.activation, cells, seed + 5);
  if (fields.finalize.shared) shared_ = random_tensor(fields.finalize.down, cells, seed + 6);
  gate_ = random_tensor(Dtype::float32, num_tokens_, seed + 9);
  if (fields.finalize.bias) bias_ = random_tensor(fields.finalize.down, num_groups(fields) * width, seed + 10);
  if (!fields.finalize.epilogue) return;
  for (const ExpressionInput& input : fields.finalize.epilogue->inputs)
    named_.push_back(random_tensor(input.dtype, named_count(input, num_tokens_, width), seed + 11 + named_.size()));
}

void FinalizeProblem::upload(Target target, std::int64_t row_stride) {
  weights_.upload(target, "weights");
  x_.upload(target, "x");
  ids_.upload(target, "topk_ids");
  residual_.upload(target, "residual");
  shared_.upload(target, "shared");
  gate_.upload(target, "shared_gate");
  bias_.upload(target, "bias");
  for (std::size_t i = 0; i < named_.size(); ++i) named_[i].upload(target, fmt::format("inputs[{}]", i));
  upload_rows(target, row_stride);
  std::vector<std::uint32_t> restore = routing_.restore;
  for (std::uint32_t& row : restore)
    if (row != kNoRow) row = static_cast<std::uint32_t>(row * row_stride);
  restore_ = Memory::of(target, "restore", restore);
}

void FinalizeProblem::upload_rows(Target target, std::int64_t row_stride) {
  const std::size_t row_bytes = bytes_of(down_.dtype, config_->expert_hidden);
  const std::int64_t device_rows = routing_.rows * row_stride + kUnusedRows;
  down_.device = Memory(target, "down", row_bytes * static_cast<std::size_t>(device_rows));
  down_.device.fill(0xFF);  // NaN in every row that is not named
  if (row_stride == 1) return down_.device.upload(down_.host.data(), down_.host.size());
  for (std::int64_t row = 0; row < routing_.rows; ++row)
    down_.device.upload(down_.host.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes,
                        static_cast<std::size_t>(row * row_stride) * row_bytes);
}

finalize::Args FinalizeProblem::args() const {
  finalize::Args args{};
  args.output = output_.data();
  args.down = down_.device.data();
  args.restore = restore_.data<std::uint32_t>();
  args.weights = weights_.device.data();
  args.x = x_.device.data();
  args.topk_ids = ids_.device.data();
  args.residual = residual_.device.data();
  args.shared = shared_.device.data();
  args.shared_gate = config_->finalize.shared ? gate_.device.data<float>() : nullptr;
  args.bias = bias_.device.data();
  for (std::size_t i = 0; i < named_.size(); ++i) args.inputs[i] = named_[i].device.data();
  args.num_tokens = num_tokens_;
  return args;
}

reference::FinalizeInputs FinalizeProblem::inputs() const {
  reference::FinalizeInputs host;
  host.down = down_.host.data();
  host.restore = routing_.restore.data();
  host.weights = weights_.host.data();
  host.x = x_.host.data();
  host.topk_ids = ids_.host.data();
  host.residual = residual_.host.data();
  host.shared = shared_.host.data();
  host.shared_gate = reinterpret_cast<const float*>(gate_.host.data());
  host.bias = bias_.host.data();
  for (const Tensor& tensor : named_) host.inputs.push_back(tensor.host.data());
  return host;
}

// First bad element of the tokens [begin, end), as text.
std::optional<std::string> FinalizeProblem::compare_tokens(const reference::FinalizeInputs& inputs,
                                                           const std::vector<char>& output, std::int64_t begin,
                                                           std::int64_t end) const {
  reference::FinalizeRow row;
  const Dtype dtype = config_->finalize.output;
  const auto width = static_cast<std::size_t>(config_->expert_hidden);
  for (std::int64_t token = begin; token < end; ++token) {
    reference::finalize_row(config_.fields(), inputs, token, row);
    for (std::size_t h = 0; h < width; ++h) {
      const double got = reference::load(dtype, output.data(), static_cast<std::size_t>(token) * width + h);
      if (!acceptable(dtype, got, row.value[h], row.error[h]))
        return fmt::format("output[{}, {}]: got {:.9g}, want {:.9g} +- {:.3g}", token, h, got, row.value[h],
                           row.error[h]);
    }
  }
  return std::nullopt;
}

std::optional<std::string> FinalizeProblem::compare() const {
  if (auto damage = output_.damage()) return damage;
  const std::vector<char> bytes = output_.download();
  const reference::FinalizeInputs host = inputs();
  std::optional<std::string> first;
  std::mutex mutex;
  parallel_for(num_tokens_, 1, [&](std::int64_t begin, std::int64_t end) {
    auto wrong = compare_tokens(host, bytes, begin, end);
    const std::scoped_lock lock(mutex);
    if (wrong && !first) first = std::move(wrong);
  });
  return first;
}

}  // namespace moegen::verify
