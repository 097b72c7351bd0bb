// SPDX-License-Identifier: Apache-2.0
#include "verify/finalize_case.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <moegen/args/finalize.h>
#include <moegen/shapes.hpp>

#include "reference/finalize.hpp"
#include "reference/number.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/memory.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"

namespace moegen::verify {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;
constexpr std::array<RowPattern, 4> kPatterns = {RowPattern::ordinary, RowPattern::dropped, RowPattern::nan_row,
                                                 RowPattern::sparse};
constexpr std::int64_t kUnusedRows = 3;               // NaN rows that no pair names
constexpr std::int64_t kSparseBytes = 5'000'000'000;  // of `down` in a sparse case

// A tensor on the host and its copy on the device.
struct Tensor {
  Dtype dtype = Dtype::float32;
  std::vector<char> host;
  Memory device;

  void upload(Target target, const std::string& name) { device = Memory::of(target, name, host); }
};

std::size_t bytes_of(Dtype dtype, std::int64_t count) { return static_cast<std::size_t>(count * bits(dtype) / 8); }

// Values of both signs over several binades, so that no rounding or exponent is special.
Tensor random_tensor(Dtype dtype, std::int64_t count, std::uint64_t seed) {
  Tensor tensor{dtype, std::vector<char>(bytes_of(dtype, count)), {}};
  parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      const double sign = random_bits(seed, 2 * at) & 1 ? -1.0 : 1.0;
      const double value = sign * std::exp2(6 * random_unit(seed, 2 * at + 1) - 4);
      reference::store(dtype, tensor.host.data(), static_cast<std::size_t>(i), value);
    }
  });
  return tensor;
}

// Row of each pair among the rows in use; kNone for a dropped pair.
std::vector<std::uint32_t> make_restore(const ConfigFields& fields, const FinalizeCase& c, std::int64_t& rows) {
  const auto slots = static_cast<std::size_t>(fields.num_slots());
  std::vector<std::uint32_t> restore(static_cast<std::size_t>(c.num_tokens) * slots);
  std::iota(restore.begin(), restore.end(), 0u);
  for (std::size_t i = restore.size(); i > 1; --i) std::swap(restore[i - 1], restore[random_below(c.seed + 7, i, i)]);
  if (c.pattern == RowPattern::dropped)
    for (std::size_t pair = 0; pair < restore.size(); ++pair)
      if (random_below(c.seed + 8, pair, 4) == 0 || pair / slots % 8 == 3) restore[pair] = kNone;
  rows = static_cast<std::int64_t>(restore.size());
  return restore;
}

// Ids that agree with restore: a dropped pair is a zero expert's or -1, a kept one a local expert's.
Tensor make_ids(const ConfigFields& fields, const std::vector<std::uint32_t>& restore, std::uint64_t seed) {
  Tensor ids{fields.indices.ids,
             std::vector<char>(bytes_of(fields.indices.ids, static_cast<std::int64_t>(restore.size()))),
             {}};
  const auto zero_experts = static_cast<std::uint64_t>(fields.num_zero_experts);
  for (std::size_t pair = 0; pair < restore.size(); ++pair) {
    const auto local = static_cast<std::uint64_t>(fields.indices.num_local_experts);
    std::int64_t id = fields.indices.first_expert + static_cast<std::int64_t>(random_below(seed, pair, local));
    if (restore[pair] == kNone) id = -1;
    if (restore[pair] == kNone && zero_experts > 0 && pair % 3 != 0)
      id = fields.num_experts + static_cast<std::int64_t>(random_below(seed, pair, zero_experts));
    reference::store_integer(ids.dtype, ids.host.data(), pair, id);
  }
  return ids;
}

bool is_zero_expert(const ConfigFields& fields, const Tensor& ids, std::size_t pair) {
  const std::int64_t id = reference::load_integer(ids.dtype, ids.host.data(), pair);
  return id >= fields.num_experts && id < fields.num_experts + fields.num_zero_experts;
}

// A dropped pair's weight is NaN: it must not reach the output. Some weights are zero.
void spoil_weights(const ConfigFields& fields, const std::vector<std::uint32_t>& restore, const Tensor& ids,
                   Tensor& weights) {
  for (std::size_t pair = 0; pair < restore.size(); ++pair) {
    if (pair % 11 == 5) reference::store(weights.dtype, weights.host.data(), pair, 0.0);
    if (restore[pair] == kNone && !is_zero_expert(fields, ids, pair))
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

// Everything that one case reads.
struct Inputs {
  Tensor down, weights, x, ids, residual, shared, gate, bias;
  std::vector<Tensor> named;
  std::vector<std::uint32_t> restore;     // in terms of rows in use
  std::int64_t rows = 0, row_stride = 1;  // device row = stride * row
  Memory restore_device;
};

std::int64_t named_count(const ExpressionInput& input, std::int64_t tokens, std::int64_t width) {
  if (input.shape == "tokens") return tokens;
  if (input.shape == "columns") return width;
  return input.shape == "scalar" ? 1 : tokens * width;
}

void upload_down(Target target, const ConfigFields& fields, Inputs& in) {
  const std::size_t row_bytes = bytes_of(in.down.dtype, fields.expert_hidden);
  const std::int64_t device_rows = in.rows * in.row_stride + kUnusedRows;
  in.down.device = Memory(target, "down", row_bytes * static_cast<std::size_t>(device_rows));
  in.down.device.fill(0xFF);  // NaN in every row that is not named
  if (in.row_stride == 1) return in.down.device.upload(in.down.host.data(), in.down.host.size());
  for (std::int64_t row = 0; row < in.rows; ++row)
    in.down.device.upload(in.down.host.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes,
                          static_cast<std::size_t>(row * in.row_stride) * row_bytes);
}

void upload_restore(Target target, Inputs& in) {
  std::vector<std::uint32_t> restore = in.restore;
  for (std::uint32_t& row : restore)
    if (row != kNone) row = static_cast<std::uint32_t>(row * in.row_stride);
  in.restore_device = Memory::of(target, "restore", restore);
}

Inputs make_inputs(Target target, const Config& config, const FinalizeCase& c) {
  const ConfigFields& fields = config.fields();
  const std::int64_t width = fields.expert_hidden, cells = c.num_tokens * width;
  Inputs in;
  in.restore = make_restore(fields, c, in.rows);
  in.down = random_tensor(fields.finalize.down, in.rows * width, c.seed);
  in.weights = random_tensor(fields.router.weights, in.rows, c.seed + 1);
  in.ids = make_ids(fields, in.restore, c.seed + 2);
  spoil_weights(fields, in.restore, in.ids, in.weights);
  if (c.pattern == RowPattern::nan_row && in.rows > 0) spoil_rows(fields, in.rows, c.seed + 3, in.down);
  if (c.pattern == RowPattern::sparse && in.rows > 0)
    in.row_stride = kSparseBytes / (in.rows * static_cast<std::int64_t>(bytes_of(in.down.dtype, width))) + 1;
  if (fields.num_zero_experts > 0) in.x = random_tensor(fields.dtypes.activation, cells, c.seed + 4);
  if (fields.finalize.residual) in.residual = random_tensor(fields.dtypes.activation, cells, c.seed + 5);
  if (fields.finalize.shared) in.shared = random_tensor(fields.finalize.down, cells, c.seed + 6);
  in.gate = random_tensor(Dtype::float32, c.num_tokens, c.seed + 9);
  if (fields.finalize.bias) in.bias = random_tensor(fields.finalize.down, num_groups(fields) * width, c.seed + 10);
  if (fields.finalize.epilogue)
    for (const ExpressionInput& input : fields.finalize.epilogue->inputs)
      in.named.push_back(
          random_tensor(input.dtype, named_count(input, c.num_tokens, width), c.seed + 11 + in.named.size()));
  in.weights.upload(target, "weights");
  in.x.upload(target, "x");
  in.ids.upload(target, "topk_ids");
  in.residual.upload(target, "residual");
  in.shared.upload(target, "shared");
  in.gate.upload(target, "shared_gate");
  in.bias.upload(target, "bias");
  for (std::size_t i = 0; i < in.named.size(); ++i) in.named[i].upload(target, fmt::format("inputs[{}]", i));
  upload_down(target, fields, in);
  upload_restore(target, in);
  return in;
}

finalize::Args make_args(const ConfigFields& fields, const Inputs& in, const GuardedBuffer& output,
                         std::int64_t num_tokens) {
  finalize::Args args{};
  args.output = output.data();
  args.down = in.down.device.data();
  args.restore = in.restore_device.data<std::uint32_t>();
  args.weights = in.weights.device.data();
  args.x = in.x.device.data();
  args.topk_ids = in.ids.device.data();
  args.residual = in.residual.device.data();
  args.shared = in.shared.device.data();
  args.shared_gate = fields.finalize.shared ? in.gate.device.data<float>() : nullptr;
  args.bias = in.bias.device.data();
  for (std::size_t i = 0; i < in.named.size(); ++i) args.inputs[i] = in.named[i].device.data();
  args.num_tokens = num_tokens;
  return args;
}

reference::FinalizeInputs host_inputs(const Inputs& in) {
  reference::FinalizeInputs host;
  host.down = in.down.host.data();
  host.restore = in.restore.data();
  host.weights = in.weights.host.data();
  host.x = in.x.host.data();
  host.topk_ids = in.ids.host.data();
  host.residual = in.residual.host.data();
  host.shared = in.shared.host.data();
  host.shared_gate = reinterpret_cast<const float*>(in.gate.host.data());
  host.bias = in.bias.host.data();
  for (const Tensor& tensor : in.named) host.inputs.push_back(tensor.host.data());
  return host;
}

// True if `got` is what float32 arithmetic may make of `want`.
bool acceptable(Dtype dtype, double got, double want, double error) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= error + reference::half_ulp(dtype, std::abs(want) + error);
}

// First bad element of the tokens [begin, end), as text.
std::optional<std::string> compare_tokens(const ConfigFields& fields, const reference::FinalizeInputs& in,
                                          const std::vector<char>& output, std::int64_t begin, std::int64_t end) {
  reference::FinalizeRow row;
  const auto width = static_cast<std::size_t>(fields.expert_hidden);
  for (std::int64_t token = begin; token < end; ++token) {
    reference::finalize_row(fields, in, token, row);
    for (std::size_t h = 0; h < width; ++h) {
      const double got =
          reference::load(fields.finalize.output, output.data(), static_cast<std::size_t>(token) * width + h);
      if (!acceptable(fields.finalize.output, got, row.value[h], row.error[h]))
        return fmt::format("output[{}, {}]: got {:.9g}, want {:.9g} +- {:.3g}", token, h, got, row.value[h],
                           row.error[h]);
    }
  }
  return std::nullopt;
}

std::optional<std::string> compare(const ConfigFields& fields, const Inputs& in, const GuardedBuffer& output,
                                   std::int64_t num_tokens) {
  if (auto damage = output.damage()) return damage;
  const std::vector<char> bytes = output.download();
  const reference::FinalizeInputs host = host_inputs(in);
  std::optional<std::string> first;
  std::mutex mutex;
  parallel_for(num_tokens, 1, [&](std::int64_t begin, std::int64_t end) {
    auto wrong = compare_tokens(fields, host, bytes, begin, end);
    const std::scoped_lock lock(mutex);
    if (wrong && !first) first = std::move(wrong);
  });
  return first;
}

}  // namespace

std::string_view to_string(RowPattern pattern) noexcept {
  switch (pattern) {
    case RowPattern::ordinary: return "ordinary";
    case RowPattern::dropped: return "dropped";
    case RowPattern::nan_row: return "nan_row";
    case RowPattern::sparse: return "sparse";
  }
  return "?";
}

std::span<const RowPattern> all_row_patterns() noexcept { return kPatterns; }

std::string FinalizeCase::name() const { return fmt::format("{} tokens {}", num_tokens, to_string(pattern)); }

std::int64_t host_bytes(const Config& config, const FinalizeCase& c) {
  const std::int64_t rows = c.num_tokens * config->num_slots() + num_groups(config.fields()) + 4 * c.num_tokens;
  return rows * config->expert_hidden * bits(config->finalize.down) / 8;
}

std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const FinalizeCase& c) {
  const Inputs in = make_inputs(kernel.target(), config, c);
  const GuardedBuffer output(kernel.target(), "output", bytes_of(config->finalize.output, c.num_tokens * config->expert_hidden),
                             GuardedBuffer::kFloatPoison);
  run_to_end(kernel, make_args(config.fields(), in, output, c.num_tokens));
  if (auto wrong = compare(config.fields(), in, output, c.num_tokens)) return fmt::format("{}: {}", c.name(), *wrong);
  return std::nullopt;
}

}  // namespace moegen::verify
