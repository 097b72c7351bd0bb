// SPDX-License-Identifier: Apache-2.0
// Hand-made rows through a router, on the target of the test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include <moegen/args/router.h>
#include <moegen/config.hpp>
#include <moegen/engine.hpp>

#include "reference/number.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/memory.hpp"
#include "verify/tensor.hpp"

namespace moegen::test {

/// An Engine on the target that the test is built for, kept for all cases. Defined by each test.
Engine& router_engine();

/// A router's config: sizes ("num_experts": 8, "top_k": 2) and the fields of `router`.
inline Config router_config(std::string_view sizes, std::string_view router) {
  return Config::from_json(fmt::format(
      R"({{"moegen": 1, "name": "bug", "hidden": 64, "intermediate": 64, {}, "router": {{{}}}}})", sizes, router));
}

struct RouterRows {
  std::vector<double> logits = {};  ///< [T, N]
  std::vector<double> bias = {};    ///< [N], where the config has one
  std::int64_t padding = 0;         ///< poisoned elements between rows
  std::vector<std::int64_t> token_ids = {};
  std::vector<std::int32_t> table = {};
  double scale = 1;
};

struct Routed {
  std::vector<std::int32_t> ids;  ///< [T, slots]
  std::vector<double> weights;    ///< [T, slots]
};

inline verify::Tensor tensor_of(Dtype dtype, const std::vector<double>& values, const std::string& name) {
  verify::Tensor tensor{
      dtype, std::vector<char>(verify::bytes_of(dtype, static_cast<std::int64_t>(values.size()))), {}};
  for (std::size_t i = 0; i < values.size(); ++i) reference::store(dtype, tensor.host.data(), i, values[i]);
  tensor.upload(router_engine().options().target, name);
  return tensor;
}

/// Rows `padding` apart, with 1e30 between them.
inline std::vector<double> spread(const std::vector<double>& rows, std::int64_t width, std::int64_t padding) {
  std::vector<double> spread;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    spread.push_back(rows[i]);
    if ((i + 1) % static_cast<std::size_t>(width) == 0 && i + 1 < rows.size())
      spread.insert(spread.end(), static_cast<std::size_t>(padding), 1e30);
  }
  return spread;
}

inline Routed route(const Config& config, const RouterRows& rows) {
  const Target target = router_engine().options().target;
  const std::int64_t width = config->num_experts + config->num_zero_experts;
  const std::int64_t tokens = static_cast<std::int64_t>(rows.logits.size()) / width;
  const auto slots = static_cast<std::size_t>(tokens * config->num_slots());
  const verify::Tensor logits = tensor_of(config->router.logits, spread(rows.logits, width, rows.padding), "logits");
  const verify::Tensor bias = tensor_of(config->router.bias.value_or(Dtype::float32), rows.bias, "bias");
  const verify::Memory token_ids = verify::Memory::of(target, "token_ids", rows.token_ids);
  const verify::Memory table = verify::Memory::of(target, "table", rows.table);
  const verify::GuardedBuffer ids(target, "expert_indices", 4 * slots, verify::GuardedBuffer::kIndexPoison);
  const verify::GuardedBuffer weights(target, "expert_weights",
                                      verify::bytes_of(config->router.weights, static_cast<std::int64_t>(slots)),
                                      verify::GuardedBuffer::kFloatPoison);
  router::Args args{};
  args.expert_indices = ids.data<std::int32_t>();
  args.expert_weights = weights.data();
  args.logits = logits.device.data();
  args.row_stride = width + rows.padding;
  args.bias = config->router.bias ? bias.device.data() : nullptr;
  args.token_ids = config->router.hash ? token_ids.data() : nullptr;
  args.table = config->router.hash ? table.data<std::int32_t>() : nullptr;
  args.num_tokens = tokens;
  args.scale = static_cast<float>(rows.scale);
  verify::run_to_end(router_engine().get(config, "router"), args);
  Routed result{std::vector<std::int32_t>(slots), std::vector<double>(slots)};
  const std::vector<char> id_bytes = ids.download(), weight_bytes = weights.download();
  for (std::size_t i = 0; i < slots; ++i) {
    result.ids[i] = static_cast<std::int32_t>(reference::load_integer(Dtype::int32, id_bytes.data(), i));
    result.weights[i] = reference::load(config->router.weights, weight_bytes.data(), i);
  }
  return result;
}

}  // namespace moegen::test
