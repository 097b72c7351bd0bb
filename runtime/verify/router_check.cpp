// SPDX-License-Identifier: Apache-2.0
#include "verify/router_check.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/number.hpp"

namespace moegen::verify {
namespace {

using reference::RouterRow;

// Distinct ids of the model's experts.
std::optional<std::string> wrong_set(std::span<const std::int32_t> ids, std::size_t experts) {
  std::vector<bool> seen(experts, false);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<std::size_t>(ids[i]) >= experts)
      return fmt::format("slot {} has id {}; allowed 0 .. {}", i, ids[i], experts - 1);
    if (seen[static_cast<std::size_t>(ids[i])]) return fmt::format("slot {} has id {} a second time", i, ids[i]);
    seen[static_cast<std::size_t>(ids[i])] = true;
  }
  return std::nullopt;
}

std::optional<std::string> wrong_order(const RouterRow& row, std::span<const std::int32_t> ids) {
  for (std::size_t i = 0; i + 1 < ids.size(); ++i)
    if (comes_before(row, ids[i + 1], ids[i]))
      return fmt::format("slot {} has id {}, which comes before id {} in slot {}", i + 1, ids[i + 1], ids[i], i);
  for (std::int32_t e = 0; e < static_cast<std::int32_t>(row.experts.size()); ++e) {
    if (std::ranges::find(ids, e) != ids.end()) continue;
    for (const std::int32_t id : ids)
      if (comes_before(row, e, id)) return fmt::format("id {} was chosen instead of {}", id, e);
  }
  return std::nullopt;
}

// What hash routing has to give, an id outside the model being none.
std::optional<std::string> wrong_look_up(const RouterRow& row, std::span<const std::int32_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = row.known_token ? row.looked_up[i] : -1;
    const std::int32_t want = id >= 0 && static_cast<std::size_t>(id) < row.experts.size() ? id : -1;
    if (ids[i] != want) return fmt::format("slot {} has id {}, want {}", i, ids[i], want);
  }
  return std::nullopt;
}

// float32 within its bound; narrower dtypes round once, with one code of slack.
bool is_near(Dtype dtype, double got, const reference::RouterWeight& want) {
  const double slack = dtype == Dtype::float32 ? 0 : 3 * reference::half_ulp(dtype, std::abs(want.value) + want.error);
  if (!std::isfinite(got)) {
    const double limit = dtype == Dtype::float16 ? 65504 : 3.38e38;
    return std::isinf(got) && std::abs(want.value) + want.error >= limit;
  }
  return std::abs(got - want.value) <= want.error + slack;
}

std::optional<std::string> wrong_weights(const ConfigFields& fields, const reference::RouterInputs& inputs,
                                         const RouterRow& row, const std::vector<std::int32_t>& ids,
                                         const std::vector<double>& weights) {
  const auto want = reference::router_weights(fields, inputs, row, ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!is_near(fields.router.weights, weights[i], want[i]))
      return fmt::format("slot {}, id {}: weight {:.9g}, want {:.9g} +- {:.3g}", i, ids[i], weights[i], want[i].value,
                         want[i].error);
  return std::nullopt;
}

std::optional<std::string> wrong_shared(const ConfigFields& fields, const RouterRow& row,
                                        std::span<const std::int32_t> ids, const std::vector<double>& weights) {
  for (auto i = static_cast<std::size_t>(fields.top_k); i < ids.size(); ++i) {
    const auto id = static_cast<std::int32_t>(row.experts.size() + i) - fields.top_k;
    const reference::RouterWeight weight = {
        row.known_token ? fields.router.shared_slots->weight : 0.0,
        row.known_token ? 1e-7 * std::abs(fields.router.shared_slots->weight) : 0.0};
    if (ids[i] != (row.known_token ? id : -1) || !is_near(fields.router.weights, weights[i], weight))
      return fmt::format("shared slot {} has id {} and weight {:.9g}, want {} and {:.9g}", i, ids[i], weights[i],
                         row.known_token ? id : -1, weight.value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_row(const ConfigFields& fields, const reference::RouterInputs& inputs,
                                     std::int64_t token, std::span<const std::int32_t> ids,
                                     const std::vector<double>& weights) {
  const RouterRow row = reference::route(fields, inputs, token);
  const auto chosen = ids.first(static_cast<std::size_t>(fields.top_k));
  if (fields.router.hash) {
    if (auto wrong = wrong_look_up(row, chosen)) return wrong;
  } else {
    if (auto wrong = wrong_set(chosen, row.experts.size())) return wrong;
    if (row.certain_groups)
      if (auto wrong = wrong_order(row, chosen)) return wrong;
  }
  if (row.certain_groups || fields.router.hash)
    if (auto wrong = wrong_weights(fields, inputs, row, {chosen.begin(), chosen.end()}, weights)) return wrong;
  return wrong_shared(fields, row, ids, weights);
}

}  // namespace moegen::verify
