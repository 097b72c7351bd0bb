// SPDX-License-Identifier: Apache-2.0
#include "verify/router_problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <numbers>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "expression_places.hpp"
#include "reference/number.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"
#include "verify/router_check.hpp"

namespace moegen::verify {
namespace {

constexpr std::array<LogitPattern, 9> kPatterns = {
    LogitPattern::ordinary,   LogitPattern::ties,       LogitPattern::equal,
    LogitPattern::saturated,  LogitPattern::deep,       LogitPattern::extreme,
    LogitPattern::non_finite, LogitPattern::last_group, LogitPattern::mixed};
constexpr std::array<BiasPattern, 5> kBiasPatterns = {BiasPattern::ordinary, BiasPattern::negative, BiasPattern::zero,
                                                      BiasPattern::large, BiasPattern::disabled};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::int64_t num_scored(const ConfigFields& fields) { return fields.num_experts + fields.num_zero_experts; }

// Box and Muller's transformation.
double normal(std::uint64_t seed, std::uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(1 - random_unit(seed, 2 * index)));
  return radius * std::cos(2 * std::numbers::pi * random_unit(seed, 2 * index + 1));
}

double largest_of(Dtype dtype) {
  return dtype == Dtype::float16 ? 65504 : dtype == Dtype::bfloat16 ? 3.3895e38 : 3.4e38;
}

// One row's element of NaN and infinities: which of them depends on the row.
double non_finite(std::uint64_t seed, std::uint64_t row, std::uint64_t expert, std::uint64_t width) {
  const std::uint64_t place = random_below(seed, row, width);
  const std::array<double, 4> bad = {std::nan(""), -std::nan(""), kInfinity, -kInfinity};
  const double any = bad[random_below(seed + 1, row * width + expert, bad.size())];
  const double plain = normal(seed + 2, row * width + expert);
  switch (row % 6) {
    case 0: return expert == place ? std::nan("") : plain;
    case 1: return expert == place ? kInfinity : plain;
    case 2: return random_below(seed + 3, row * width + expert, 2) == 0 ? any : plain;
    case 3: return expert == place ? plain : any;
    case 4: return any;
    default: return -kInfinity;
  }
}

double draw_logit(LogitPattern pattern, Dtype dtype, std::uint64_t seed, std::uint64_t row, std::uint64_t expert,
                  std::uint64_t width) {
  const std::uint64_t at = row * width + expert;
  switch (pattern) {
    case LogitPattern::ordinary: return 2 * normal(seed, at);
    case LogitPattern::ties: return 0.5 * static_cast<double>(random_below(seed, at, 7)) - 1.5;
    case LogitPattern::equal: return normal(seed, row);
    case LogitPattern::saturated: return 18 + 42 * random_unit(seed, at);
    case LogitPattern::deep: return -110 - 290 * random_unit(seed, at);
    case LogitPattern::extreme:
      if (random_below(seed + 1, at, 3) != 0) return normal(seed, at);
      return random_below(seed + 2, at, 2) == 0 ? largest_of(dtype) : -largest_of(dtype);
    case LogitPattern::non_finite: return non_finite(seed, row, expert, width);
    case LogitPattern::last_group:
      return normal(seed, at) * 0.01 + 4 * static_cast<double>(expert + 1) / static_cast<double>(width);
    case LogitPattern::mixed: return draw_logit(kPatterns[row % 8], dtype, seed, row / 8, expert, width);
  }
  return 0;
}

double draw_bias(BiasPattern pattern, std::uint64_t seed, std::uint64_t expert) {
  const double plain = 0.1 * normal(seed, expert);
  switch (pattern) {
    case BiasPattern::ordinary: return plain;
    case BiasPattern::negative: return -2 - std::abs(plain);
    case BiasPattern::zero: return expert % 2 == 0 ? 0.0 : -0.0;
    case BiasPattern::large: return 100 + plain;
    case BiasPattern::disabled: return random_below(seed + 1, expert, 4) == 0 ? -kInfinity : plain;
  }
  return 0;
}

std::int64_t named_count(const ExpressionInput& input, std::int64_t tokens, std::int64_t experts) {
  if (input.shape == "tokens") return tokens;
  if (input.shape == "experts") return experts;
  return input.shape == "scalar" ? 1 : tokens * experts;
}

// Elements of a named input between two tokens.
std::int64_t named_stride(const ExpressionInput& input, std::int64_t experts) {
  if (input.shape == "tokens") return 1;
  return input.shape == "tokens_experts" ? experts : 0;
}

std::size_t cells(const Config& config, std::int64_t tokens) {
  return static_cast<std::size_t>(tokens * config->num_slots());
}

GuardedBuffer indices_buffer(Target target, const Config& config, std::int64_t tokens) {
  return GuardedBuffer(target, "expert_indices", 4 * cells(config, tokens), GuardedBuffer::kIndexPoison);
}

GuardedBuffer weights_buffer(Target target, const Config& config, std::int64_t tokens) {
  return GuardedBuffer(target, "expert_weights",
                       bytes_of(config->router.weights, static_cast<std::int64_t>(cells(config, tokens))),
                       GuardedBuffer::kFloatPoison);
}

std::vector<std::int32_t> as_ids(const std::vector<char>& bytes) {
  std::vector<std::int32_t> ids(bytes.size() / 4);
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

const void* advance(const void* pointer, Dtype dtype, std::int64_t elements) {
  return pointer ? static_cast<const char*>(pointer) + bytes_of(dtype, elements) : nullptr;
}

}  // namespace

std::string_view to_string(LogitPattern pattern) noexcept {
  switch (pattern) {
    case LogitPattern::ordinary: return "ordinary";
    case LogitPattern::ties: return "ties";
    case LogitPattern::equal: return "equal";
    case LogitPattern::saturated: return "saturated";
    case LogitPattern::deep: return "deep";
    case LogitPattern::extreme: return "extreme";
    case LogitPattern::non_finite: return "non_finite";
    case LogitPattern::last_group: return "last_group";
    case LogitPattern::mixed: return "mixed";
  }
  return "?";
}

std::span<const LogitPattern> all_logit_patterns() noexcept { return kPatterns; }

std::string_view to_string(BiasPattern pattern) noexcept {
  switch (pattern) {
    case BiasPattern::ordinary: return "ordinary";
    case BiasPattern::negative: return "negative";
    case BiasPattern::zero: return "zero";
    case BiasPattern::large: return "large";
    case BiasPattern::disabled: return "disabled";
  }
  return "?";
}

std::span<const BiasPattern> all_bias_patterns() noexcept { return kBiasPatterns; }

RouterProblem::RouterProblem(Target target, const Config& config, const RouterOptions& options)
    : config_(config),
      options_(options),
      num_experts_(num_scored(config.fields())),
      indices_(indices_buffer(target, config, options.num_tokens)),
      weights_(weights_buffer(target, config, options.num_tokens)),
      indices_alone_(indices_buffer(target, config, 1)),
      weights_alone_(weights_buffer(target, config, 1)) {
  make_tensors(target);
  make_named(target);
  if (config->router.hash) make_hash(target);
  args_.expert_indices = indices_.data<std::int32_t>();
  args_.expert_weights = weights_.data();
  args_.logits = logits_.device.data();
  args_.row_stride = num_experts_ + options.padding;
  args_.bias = bias_.device.data();
  args_.token_ids = device_token_ids_.data();
  args_.table = device_table_.data<std::int32_t>();
  for (std::size_t i = 0; i < named_.size(); ++i) args_.inputs[i] = named_[i].device.data();
  args_.num_tokens = options.num_tokens;
  args_.scale = static_cast<float>(config->router.scale);
}

// The last row ends with its last expert, so that a read of what would follow is one beyond the tensor.
void RouterProblem::make_tensors(Target target) {
  const ConfigFields& fields = config_.fields();
  const std::int64_t stride = num_experts_ + options_.padding;
  const std::int64_t count = options_.num_tokens == 0 ? 0 : options_.num_tokens * stride - options_.padding;
  logits_ = {fields.router.logits, std::vector<char>(bytes_of(fields.router.logits, count)), {}};
  parallel_for(options_.num_tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * stride; at < std::min(end * stride, count); ++at) {
      const std::int64_t expert = at % stride;
      const double poison = at % 2 == 0 ? 1e30 : std::nan("");
      reference::store(
          logits_.dtype, logits_.host.data(), static_cast<std::size_t>(at),
          expert >= num_experts_
              ? poison
              : draw_logit(options_.logits, logits_.dtype, options_.seed, static_cast<std::uint64_t>(at / stride),
                           static_cast<std::uint64_t>(expert), static_cast<std::uint64_t>(num_experts_)));
    }
  });
  logits_.upload(target, "logits");
  if (!fields.router.bias) return;
  bias_ = {*fields.router.bias, std::vector<char>(bytes_of(*fields.router.bias, num_experts_)), {}};
  for (std::int64_t e = 0; e < num_experts_; ++e)
    reference::store(bias_.dtype, bias_.host.data(), static_cast<std::size_t>(e),
                     draw_bias(options_.bias, options_.seed + 7, static_cast<std::uint64_t>(e)));
  bias_.upload(target, "bias");
}

void RouterProblem::make_named(Target target) {
  if (!config_->router.scores) return;
  for (const ExpressionInput& input : config_->router.scores->inputs) {
    named_.push_back(random_tensor(input.dtype, named_count(input, options_.num_tokens, num_experts_),
                                   options_.seed + 11 + named_.size()));
    named_.back().upload(target, fmt::format("inputs[{}]", named_.size() - 1));
  }
}

// A few tokens are outside the vocabulary, and a few entries of the table outside the model.
void RouterProblem::make_hash(Target target) {
  const HashRouting& hash = *config_->router.hash;
  const std::array<std::int64_t, 5> bad = {-1, hash.vocab, hash.vocab + 7, std::numeric_limits<std::int32_t>::min(),
                                           std::numeric_limits<std::int32_t>::max()};
  token_ids_.resize(bytes_of(hash.token_id, options_.num_tokens));
  for (std::uint64_t t = 0; t < static_cast<std::uint64_t>(options_.num_tokens); ++t) {
    const auto any =
        static_cast<std::int64_t>(random_below(options_.seed + 3, t, static_cast<std::uint64_t>(hash.vocab)));
    reference::store_integer(hash.token_id, token_ids_.data(), t, t % 9 == 4 ? bad[t / 9 % bad.size()] : any);
  }
  table_.resize(static_cast<std::size_t>(hash.vocab * config_->top_k));
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const auto id =
        static_cast<std::int32_t>(random_below(options_.seed + 4, i, static_cast<std::uint64_t>(num_experts_)));
    table_[i] = i % 31 == 17 ? (i % 2 == 0 ? -1 : static_cast<std::int32_t>(num_experts_)) : id;
  }
  device_token_ids_ = Memory::of(target, "token_ids", token_ids_);
  device_table_ = Memory::of(target, "table", table_);
}

void RouterProblem::reset() const {
  for (const GuardedBuffer* buffer : {&indices_, &weights_, &indices_alone_, &weights_alone_}) buffer->reset();
}

std::vector<std::int32_t> RouterProblem::ids() const { return as_ids(indices_.download()); }

reference::RouterInputs RouterProblem::host_inputs() const {
  reference::RouterInputs inputs;
  inputs.logits = logits_.host.data();
  inputs.row_stride = args_.row_stride;
  inputs.bias = bias_.host.data();
  inputs.token_ids = token_ids_.data();
  inputs.table = table_.data();
  for (const Tensor& tensor : named_) inputs.inputs.push_back(tensor.host.data());
  inputs.scale = double{args_.scale};
  return inputs;
}

std::optional<std::string> RouterProblem::compare_tokens(const std::vector<std::int32_t>& ids,
                                                         const std::vector<char>& weights, std::int64_t begin,
                                                         std::int64_t end) const {
  const reference::RouterInputs inputs = host_inputs();
  const auto slots = static_cast<std::size_t>(config_->num_slots());
  for (std::int64_t token = begin; token < end; ++token) {
    const std::size_t at = static_cast<std::size_t>(token) * slots;
    std::vector<double> row(slots);
    for (std::size_t i = 0; i < slots; ++i) row[i] = reference::load(config_->router.weights, weights.data(), at + i);
    if (auto wrong = wrong_row(config_.fields(), inputs, token, std::span(ids).subspan(at, slots), row))
      return fmt::format("token {}: {}", token, *wrong);
  }
  return std::nullopt;
}

std::optional<std::string> RouterProblem::compare() const {
  for (const GuardedBuffer* buffer : {&indices_, &weights_})
    if (auto damage = buffer->damage()) return damage;
  const std::vector<std::int32_t> got = ids();
  const std::vector<char> weights = weights_.download();
  std::optional<std::string> first;
  std::mutex mutex;
  parallel_for(options_.num_tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    auto wrong = compare_tokens(got, weights, begin, end);
    const std::scoped_lock lock(mutex);
    if (wrong && !first) first = std::move(wrong);
  });
  return first;
}

std::optional<router::Args> RouterProblem::alone(std::int64_t token) const {
  const RouterConfig& router = config_->router;
  router::Args args = args_;
  args.num_tokens = 1;
  args.expert_indices = indices_alone_.data<std::int32_t>();
  args.expert_weights = weights_alone_.data();
  args.logits = advance(args_.logits, router.logits, token * args_.row_stride);
  if (router.hash) args.token_ids = static_cast<const char*>(args_.token_ids) + bytes_of(router.hash->token_id, token);
  if (!router.scores) return args;
  const std::vector<std::string> used = parse_at(expression_place("/router/scores"), *router.scores).inputs_used();
  if (std::ranges::find(used, "token") != used.end()) return std::nullopt;
  for (std::size_t i = 0; i < named_.size(); ++i) {
    const ExpressionInput& input = router.scores->inputs[i];
    args.inputs[i] = advance(args.inputs[i], input.dtype, token * named_stride(input, num_experts_));
  }
  return args;
}

std::optional<std::string> RouterProblem::differs_alone(std::int64_t token) const {
  for (const GuardedBuffer* buffer : {&indices_alone_, &weights_alone_})
    if (auto damage = buffer->damage()) return damage;
  const auto differs = [&](const GuardedBuffer& batch, const GuardedBuffer& single) {
    const std::vector<char> all = batch.download(), one = single.download();
    return std::memcmp(all.data() + static_cast<std::size_t>(token) * one.size(), one.data(), one.size()) != 0;
  };
  if (differs(indices_, indices_alone_))
    return fmt::format("token {} has other experts alone than in the batch", token);
  if (differs(weights_, weights_alone_))
    return fmt::format("token {} has other weights alone than in the batch", token);
  return std::nullopt;
}

}  // namespace moegen::verify
