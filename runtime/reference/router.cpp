// SPDX-License-Identifier: Apache-2.0
#include "reference/router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "expression_places.hpp"
#include "reference/number.hpp"

namespace moegen::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 2e-6;    // relative, of a float32 weight
constexpr double kSmallest = 1.2e-38;  // below it nothing is claimed
constexpr double kRounding = 0x1p-24;  // of one float32 operation

double ulp(double value) { return 2 * half_ulp(Dtype::float32, value); }

std::int64_t num_scored(const ConfigFields& fields) { return fields.num_experts + fields.num_zero_experts; }

double tolerance_of(const ConfigFields& fields, double logit, double largest) {
  if (fields.router.scoring != Scoring::softmax) return kTolerance;
  return kTolerance * (1 + std::abs(logit - largest) / 16);
}

// log(1 + e^x) without overflow or loss.
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

double log_sigmoid(double x) { return -softplus(-x); }

double log_sqrt_softplus(double x) { return x < -30 ? x / 2 : std::log(softplus(x)) / 2; }

// ---- scores ----

// Sum of e^(logit - largest) over the finite logits.
double row_sum(const RouterRow& row) {
  double sum = 0;
  for (const RoutedExpert& expert : row.experts)
    if (std::isfinite(expert.logit)) sum += std::exp(expert.logit - row.largest_logit);
  return sum;
}

std::size_t input_index(const ExpressionInput& input, std::size_t token, std::size_t expert, std::size_t width) {
  if (input.shape == "tokens") return token;
  if (input.shape == "experts") return expert;
  return input.shape == "scalar" ? 0 : token * width + expert;
}

void apply_expression(const ConfigFields& fields, const RouterInputs& in, std::int64_t token, RouterRow& row) {
  const ExpressionConfig& config = *fields.router.scores;
  const Expression expression = parse_at(expression_place("/router/scores"), config);
  std::vector<double> values(3 + config.inputs.size(), 0.0);
  const std::vector<double> errors(values.size(), 0.0);
  values[2] = static_cast<double>(token);
  const std::size_t width = row.experts.size();
  for (std::size_t e = 0; e < width; ++e) {
    values[0] = row.experts[e].logit;
    values[1] = static_cast<double>(e);
    for (std::size_t i = 0; i < config.inputs.size(); ++i)
      values[3 + i] = load(config.inputs[i].dtype, in.inputs[i],
                           input_index(config.inputs[i], static_cast<std::size_t>(token), e, width));
    const Bounded score = expression.evaluate(values, errors);
    row.experts[e].score = score.value;
    row.experts[e].score_error = score.error;
  }
}

double score_of(const RouterConfig& router, double logit) {
  switch (router.scoring) {
    case Scoring::sigmoid: return std::exp(log_sigmoid(logit));
    case Scoring::sqrt_softplus: return std::exp(log_sqrt_softplus(logit));
    default: return logit;
  }
}

void score_row(const ConfigFields& fields, const RouterInputs& in, std::int64_t token, RouterRow& row) {
  const RouterConfig& router = fields.router;
  if (router.scores) return apply_expression(fields, in, token, row);
  const double sum = router.scoring == Scoring::softmax ? row_sum(row) : 1;
  for (RoutedExpert& expert : row.experts) {
    if (!std::isfinite(expert.logit)) continue;
    expert.score = router.scoring == Scoring::softmax ? std::exp(expert.logit - row.largest_logit) / sum
                                                      : score_of(router, expert.logit);
    if (router.scoring != Scoring::none)
      expert.score_error = tolerance_of(fields, expert.logit, row.largest_logit) * std::abs(expert.score);
  }
}

void find_keys(const ConfigFields& fields, RouterRow& row) {
  const bool late = fields.router.order == RouterOrder::select_then_score;
  for (RoutedExpert& expert : row.experts) {
    expert.finite = std::isfinite(expert.logit) && std::isfinite(expert.score);
    if (!expert.finite) expert.score = expert.score_error = 0;
    expert.key = (late ? expert.logit : expert.score) + expert.bias;
    expert.finite = expert.finite && (std::isfinite(expert.key) || expert.key > 0);
    if (!expert.finite) expert.key = -kInfinity;
    // Scores below the least normal float32 may be 0, and then tie.
    expert.key_error =
        (late ? 0 : expert.score_error + kSmallest) + (std::isfinite(expert.key) ? 4 * ulp(expert.key) : 0);
  }
}

// ---- groups ----

struct Group {
  double score = -kInfinity, error = 0;
  const RoutedExpert* first = nullptr;   // its best expert
  const RoutedExpert* second = nullptr;  // the next one, where the sum of two counts
};

bool same_inputs(const RoutedExpert* a, const RoutedExpert* b) {
  if (!a || !b) return a == b;
  return a->logit == b->logit && a->bias == b->bias && a->key == b->key;
}

Group make_group(const ConfigFields& fields, const RouterRow& row, std::size_t begin, std::size_t size) {
  Group group;
  for (std::size_t e = begin; e < begin + size; ++e) {
    const RoutedExpert* expert = &row.experts[e];
    if (!group.first || expert->key > group.first->key) std::swap(group.first, expert);
    if (expert && (!group.second || expert->key > group.second->key)) group.second = expert;
  }
  const bool two = fields.router.group_score == GroupScore::top2_sum && size > 1;
  if (!two) group.second = nullptr;
  group.score = group.first->key + (two ? group.second->key : 0);
  if (std::isnan(group.score)) group.score = -kInfinity;
  if (!std::isfinite(group.score)) return group;
  group.error = group.first->key_error + (two ? group.second->key_error : 0) + 4 * ulp(group.score);
  return group;
}

bool is_tie(const Group& a, const Group& b) {
  if (!std::isfinite(a.score)) return a.score == b.score;
  return same_inputs(a.first, b.first) && same_inputs(a.second, b.second);
}

void keep_groups(const ConfigFields& fields, RouterRow& row) {
  const auto count = static_cast<std::size_t>(fields.router.num_groups);
  const auto size = static_cast<std::size_t>(fields.num_experts) / count;
  std::vector<Group> groups(count);
  for (std::size_t g = 0; g < count; ++g) groups[g] = make_group(fields, row, g * size, size);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return groups[a].score != groups[b].score ? groups[a].score > groups[b].score : a < b;
  });
  const auto kept = static_cast<std::size_t>(fields.router.top_groups);
  for (std::size_t i = kept; i < count; ++i)
    for (std::size_t e = 0; e < size; ++e) row.experts[order[i] * size + e].kept = false;
  for (std::size_t i = 0; i < kept; ++i)
    for (std::size_t j = kept; j < count; ++j) {
      const Group &a = groups[order[i]], &b = groups[order[j]];
      const bool apart = a.score - b.score > std::max(a.error, b.error) || (a.score > b.score && std::isinf(b.score));
      if (!apart && !is_tie(a, b)) row.certain_groups = false;
    }
}

// ---- weights ----

// Logarithm of the score, where normalisation goes by it.
double log_score(const RouterConfig& router, double logit) {
  if (router.scoring == Scoring::softmax) return logit;
  return router.scoring == Scoring::sigmoid ? log_sigmoid(logit) : log_sqrt_softplus(logit);
}

bool by_log(const RouterConfig& router) { return !router.scores && router.scoring != Scoring::none; }

bool is_active(const ConfigFields& fields, const RoutedExpert& expert) {
  if (fields.router.hash) return std::isfinite(expert.logit) && std::isfinite(expert.score);
  return expert.finite && expert.kept;
}

void normalize_logs(const ConfigFields& fields, const RouterRow& row, const std::vector<std::int32_t>& ids,
                    std::vector<RouterWeight>& weights) {
  double largest = -kInfinity, sum = 0;
  const auto expert_of = [&](std::size_t i) -> const RoutedExpert& {
    return row.experts[static_cast<std::size_t>(ids[i])];
  };
  const auto log_of = [&](std::size_t i) { return log_score(fields.router, expert_of(i).logit); };
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0 && is_active(fields, expert_of(i))) largest = std::max(largest, log_of(i));
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0 && is_active(fields, expert_of(i))) sum += weights[i].value = std::exp(log_of(i) - largest);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || !is_active(fields, expert_of(i))) continue;
    weights[i].value /= sum;
    weights[i].error = tolerance_of(fields, expert_of(i).logit, row.largest_logit) * weights[i].value;
  }
}

// The float32 sum of scores of both signs is off by the magnitudes; so much that the quotient may be anything finite
// where they cancel.
void normalize_scores(const RouterRow& row, const std::vector<std::int32_t>& ids, std::vector<RouterWeight>& weights) {
  double sum = 0, magnitude = 0, error = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sum += weights[i].value;
    magnitude += std::abs(weights[i].value);
    if (ids[i] >= 0) error += row.experts[static_cast<std::size_t>(ids[i])].score_error;
  }
  error += static_cast<double>(ids.size() + 2) * kRounding * magnitude;
  if (magnitude == 0) return;
  const bool unsure = std::abs(sum) <= 4 * error;
  for (RouterWeight& weight : weights) {
    const double quotient = unsure ? 0 : weight.value / sum;
    weight.error = unsure ? kInfinity
                          : (weight.error + std::abs(quotient) * error) / (std::abs(sum) - error) +
                                kTolerance * std::abs(quotient);
    weight.value = quotient;
  }
}

RouterWeight unnormalized(const RoutedExpert& expert) {
  return {expert.score, expert.score_error + kTolerance * std::abs(expert.score)};
}

}  // namespace

RouterRow route(const ConfigFields& fields, const RouterInputs& in, std::int64_t token) {
  RouterRow row;
  row.largest_logit = -kInfinity;
  row.experts.resize(static_cast<std::size_t>(num_scored(fields)));
  for (std::size_t e = 0; e < row.experts.size(); ++e) {
    RoutedExpert& expert = row.experts[e];
    expert.logit = load(fields.router.logits, in.logits, static_cast<std::size_t>(token * in.row_stride) + e);
    if (fields.router.bias && !fields.router.hash) expert.bias = load(*fields.router.bias, in.bias, e);
    if (std::isfinite(expert.logit)) row.largest_logit = std::max(row.largest_logit, expert.logit);
  }
  score_row(fields, in, token, row);
  find_keys(fields, row);
  if (fields.router.hash) {
    const std::int64_t id = load_integer(fields.router.hash->token_id, in.token_ids, static_cast<std::size_t>(token));
    row.known_token = id >= 0 && id < fields.router.hash->vocab;
    const auto top_k = static_cast<std::int64_t>(fields.top_k);
    for (std::int64_t slot = 0; slot < top_k && row.known_token; ++slot)
      row.looked_up.push_back(in.table[id * top_k + slot]);
  } else if (fields.router.num_groups > 1) {
    keep_groups(fields, row);
  }
  return row;
}

bool comes_before(const RouterRow& row, std::int32_t a, std::int32_t b) {
  const RoutedExpert &first = row.experts[static_cast<std::size_t>(a)],
                     &other = row.experts[static_cast<std::size_t>(b)];
  if (std::isinf(first.key_error) || std::isinf(other.key_error)) return false;
  const auto class_of = [](const RoutedExpert& expert) { return !expert.kept ? 2 : expert.finite ? 0 : 1; };
  if (class_of(first) != class_of(other)) return class_of(first) < class_of(other);
  if (class_of(first) != 0 || same_inputs(&first, &other)) return a < b;
  return first.key - other.key > std::max(first.key_error, other.key_error);
}

std::vector<RouterWeight> router_weights(const ConfigFields& fields, const RouterInputs& inputs, const RouterRow& row,
                                         const std::vector<std::int32_t>& ids) {
  std::vector<RouterWeight> weights(ids.size());
  const RouterConfig& router = fields.router;
  const bool late_softmax = router.order == RouterOrder::select_then_score && router.scoring == Scoring::softmax;
  const bool normalized = router.normalize || late_softmax;
  if (normalized && by_log(router)) {
    normalize_logs(fields, row, ids, weights);
  } else {
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= 0 && is_active(fields, row.experts[static_cast<std::size_t>(ids[i])]))
        weights[i] = unnormalized(row.experts[static_cast<std::size_t>(ids[i])]);
    if (normalized) normalize_scores(row, ids, weights);
  }
  for (RouterWeight& weight : weights) {
    weight.value *= inputs.scale;
    if (std::isfinite(weight.error))
      weight.error = (weight.error + kSmallest) * std::abs(inputs.scale) + kRounding * std::abs(weight.value);
  }
  return weights;
}

}  // namespace moegen::reference
