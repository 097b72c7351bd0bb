// SPDX-License-Identifier: Apache-2.0
#include "importer/layers.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <moegen/error.hpp>

namespace moegen::importer {

using nlohmann::json;

namespace {

using Roles = std::vector<LayerRole>;

constexpr std::int64_t kMaxLayers = 4096;  // no model is near it; bounds the work that a hostile file can ask for

LayerRole moe_if(bool moe) { return moe ? LayerRole::moe : LayerRole::other; }

template <class Test>
Roles roles_where(std::int64_t count, const Test& is_moe) {
  Roles roles;
  for (std::int64_t layer = 0; layer < count; ++layer) roles.push_back(moe_if(is_moe(layer)));
  return roles;
}

bool contains(const std::vector<std::int64_t>& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::int64_t positive(const Document& text, std::string_view name, std::int64_t standard) {
  const auto found = text.find_integer(name);
  if (found && found->value == 0) text.refuse(name, "is 0; allowed an integer from 1 up");
  return found ? found->value : standard;
}

LayerRole role_of_word(const Document& text, std::string_view field, const std::string& word) {
  if (word == "sparse" || word == "moe") return LayerRole::moe;
  if (word == "hash_moe") return LayerRole::hash_moe;
  if (word == "dense" || word == "mlp" || word == "mamba" || word == "attention" || word == "linear_attention" ||
      word == "full_attention")
    return LayerRole::other;
  text.refuse(field, fmt::format("has '{}'; known layer types are sparse, moe, hash_moe, dense, mlp, mamba, attention, "
                                 "linear_attention and full_attention",
                                 word));
}

// Lists may be longer than the model: entries past its layers belong to draft heads.
Roles roles_from_words(const Document& text, std::string_view field, std::int64_t count) {
  const std::vector<std::string> words = text.texts(field);
  if (static_cast<std::int64_t>(words.size()) < count)
    text.refuse(field, fmt::format("has {} entries for {} layers; one entry a layer", words.size(), count));
  Roles roles;
  for (std::int64_t layer = 0; layer < count; ++layer)
    roles.push_back(role_of_word(text, field, words[static_cast<std::size_t>(layer)]));
  return roles;
}

// moe_layer_freq is a period counted from layer 0, or a list of 0 and 1.
Roles dense_first(const Document& text, std::int64_t count) {
  if (text.has("mlp_layer_types")) return roles_from_words(text, "mlp_layer_types", count);
  const json* frequency = text.find("moe_layer_freq");
  if (frequency != nullptr && frequency->is_array()) {
    const std::vector<std::int64_t> list = text.integers("moe_layer_freq");
    if (static_cast<std::int64_t>(list.size()) < count)
      text.refuse("moe_layer_freq", fmt::format("has {} entries for {} layers; one entry a layer", list.size(), count));
    return roles_where(count, [&](std::int64_t layer) { return list[static_cast<std::size_t>(layer)] != 0; });
  }
  const std::int64_t first = text.integer("first_k_dense_replace").value;
  const std::int64_t period = positive(text, "moe_layer_freq", 1);
  return roles_where(count, [&](std::int64_t layer) { return layer >= first && layer % period == 0; });
}

Roles sparse_step(const Document& text, std::int64_t count) {
  const std::int64_t step = positive(text, "decoder_sparse_step", 1);
  const std::vector<std::int64_t> dense = text.integers("mlp_only_layers");
  return roles_where(count, [&](std::int64_t layer) { return (layer + 1) % step == 0 && !contains(dense, layer); });
}

Roles moe_layers(const Document& text, std::int64_t count) {
  if (text.has("moe_layers")) {
    const std::vector<std::int64_t> list = text.integers("moe_layers");
    return roles_where(count, [&](std::int64_t layer) { return contains(list, layer); });
  }
  const std::int64_t step = positive(text, "interleave_moe_layer_step", 1);
  return roles_where(count, [&](std::int64_t layer) { return (layer + 1) % step == 0; });
}

Roles block_pattern(const Document& text, std::int64_t count) {
  if (text.has("layers_block_type|layer_types")) return roles_from_words(text, "layers_block_type|layer_types", count);
  const auto pattern = text.find_text("hybrid_override_pattern");
  if (!pattern) text.refuse_missing("layers_block_type|hybrid_override_pattern");
  const auto letters = static_cast<std::int64_t>(pattern->value.size());
  if (letters != count || pattern->value.find_first_not_of("ME*-") != std::string::npos)
    text.refuse("hybrid_override_pattern",
                fmt::format("has {} characters for {} layers; one of M, E, * and - a layer", letters, count));
  return roles_where(count, [&](std::int64_t layer) { return pattern->value[static_cast<std::size_t>(layer)] == 'E'; });
}

Roles interval(const Document& text, std::int64_t count) {
  const std::int64_t step = positive(text, "moe_layer_interval", 1);
  const auto start = text.find_integer("moe_layer_start_index");
  if (!start) text.refuse_missing("moe_layer_start_index");
  const json* end = text.find("moe_layer_end_index");  // -1 is the last layer
  const bool to_the_end = end == nullptr || *end == -1;
  const std::int64_t last = to_the_end ? count - 1 : text.integer("moe_layer_end_index").value;
  return roles_where(
      count, [&](std::int64_t layer) { return (layer + 1) % step == 0 && layer >= start->value && layer <= last; });
}

Roles period(const Document& text, std::int64_t count) {
  const std::int64_t step = text.integer("expert_layer_period").value;
  const std::int64_t offset = text.integer("expert_layer_offset").value;
  if (step == 0) text.refuse("expert_layer_period", "is 0; allowed an integer from 1 up");
  return roles_where(count, [&](std::int64_t layer) { return layer % step == offset; });
}

Roles num_dense(const Document& text, std::int64_t count) {
  const std::int64_t first = text.integer("num_dense_layers").value;
  return roles_where(count, [&](std::int64_t layer) { return layer >= first; });
}

Roles hash_first(const Document& text, std::int64_t count) {
  if (text.has("mlp_layer_types")) return roles_from_words(text, "mlp_layer_types", count);
  const std::int64_t hashed = text.integer("num_hash_layers").value;
  Roles roles(static_cast<std::size_t>(count), LayerRole::moe);
  std::fill_n(roles.begin(), std::min(hashed, count), LayerRole::hash_moe);
  return roles;
}

// moe_layers_enum is a text: "3,4,5".
std::vector<std::int64_t> numbers_in(const Document& text, std::string_view field) {
  const std::string list = text.find_text(field)->value;
  std::vector<std::int64_t> numbers;
  for (const char *at = list.data(), *end = at + list.size(); at < end;) {
    if (*at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    std::int64_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) text.refuse(field, "is not a list of layers; allowed as in \"3,4,5\"");
    numbers.push_back(number);
    at = after;
  }
  return numbers;
}

Roles enumerated(const Document& text, std::int64_t count) {
  if (text.has("mlp_layer_types")) return roles_from_words(text, "mlp_layer_types", count);
  if (!text.has("moe_layers_enum")) return dense_first(text, count);
  const std::vector<std::int64_t> list = numbers_in(text, "moe_layers_enum");
  return roles_where(count, [&](std::int64_t layer) { return contains(list, layer); });
}

Roles roles_by_rule(const Document& text, LayerRule rule, std::int64_t count) {
  switch (rule) {
    case LayerRule::every: break;
    case LayerRule::dense_first: return dense_first(text, count);
    case LayerRule::sparse_step: return sparse_step(text, count);
    case LayerRule::moe_layers: return moe_layers(text, count);
    case LayerRule::block_pattern: return block_pattern(text, count);
    case LayerRule::interval: return interval(text, count);
    case LayerRule::period: return period(text, count);
    case LayerRule::num_dense: return num_dense(text, count);
    case LayerRule::hash_first: return hash_first(text, count);
    case LayerRule::enumerated: return enumerated(text, count);
  }
  return Roles(static_cast<std::size_t>(count), LayerRole::moe);
}

std::string describe(LayerRole role, const std::string& sizes) {
  if (role == LayerRole::other) return "without experts";
  return fmt::format("{}{}{}", role == LayerRole::hash_moe ? "hash-routed moe" : "moe", sizes.empty() ? "" : ", ",
                     sizes);
}

// The sizes of `layer`, as far as lists give them; "" where all layers share theirs.
std::string listed_sizes(const Document& section, const ModelType& type, int layer) {
  std::string sizes;
  for (std::string_view names : {type.num_experts, type.top_k, type.intermediate, type.shared_count, type.late_limit}) {
    const json* value = names.empty() ? nullptr : section.find(names);
    if (value == nullptr || !value->is_array()) continue;
    const auto number = section.find_number(names, layer);
    sizes += fmt::format("{}{} {}", sizes.empty() ? "" : ", ", names.substr(0, names.find('|')),
                         number ? fmt::format("{}", number->value) : "null");
  }
  return sizes;
}

}  // namespace

std::vector<LayerRole> layer_roles(const Document& text, const ModelType& type) {
  const std::int64_t count = text.integer(type.num_layers).value;
  if (count < 1 || count > kMaxLayers)
    text.refuse(type.num_layers, fmt::format("is {}; allowed 1 to {}", count, kMaxLayers));
  return roles_by_rule(text, type.layers, count);
}

std::vector<LayerKind> layer_kinds(const Document& text, const Document& section, const ModelType& type,
                                   const std::vector<LayerRole>& roles) {
  std::vector<LayerKind> kinds;
  for (int layer = 0; layer < static_cast<int>(roles.size()); ++layer) {
    const LayerRole role = roles[static_cast<std::size_t>(layer)];
    const bool moe = role != LayerRole::other;
    const std::string description = describe(role, moe ? listed_sizes(section, type, layer) : "");
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const LayerKind& candidate) { return candidate.description == description; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), LayerKind{description, {}, moe, false});
    kind->layers.push_back(layer);
  }
  if (std::none_of(kinds.begin(), kinds.end(), [](const LayerKind& kind) { return kind.moe; }))
    text.refuse("", fmt::format("makes no layer of {} a moe layer; at least one is needed", roles.size()));
  return kinds;
}

int choose_layer(const Document& text, std::optional<std::int64_t> wanted, const std::vector<LayerRole>& roles,
                 std::vector<LayerKind>& kinds) {
  const auto count = static_cast<std::int64_t>(roles.size());
  if (wanted && (*wanted < 0 || *wanted >= count))
    text.refuse("", fmt::format("has {} layers, so no layer {}; allowed 0 to {}", count, *wanted, count - 1));
  LayerKind* best = nullptr;
  for (LayerKind& kind : kinds) {
    const bool holds = wanted && std::find(kind.layers.begin(), kind.layers.end(), *wanted) != kind.layers.end();
    if (holds || (!wanted && kind.moe && (best == nullptr || kind.layers.size() > best->layers.size()))) best = &kind;
  }
  if (!best->moe) {
    std::vector<int> allowed;
    for (int layer = 0; layer < count; ++layer)
      if (roles[static_cast<std::size_t>(layer)] != LayerRole::other) allowed.push_back(layer);
    text.refuse("", fmt::format("has no experts in layer {}; allowed {}", *wanted, spell_layers(allowed)));
  }
  best->chosen = true;
  return wanted ? static_cast<int>(*wanted) : best->layers.front();
}

std::string spell_layers(const std::vector<int>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layers[i]);
    if (end > i) text += fmt::format("{} {}", end == i + 1 ? " and" : " to", layers[end]);
    i = end + 1;
  }
  return text;
}

}  // namespace moegen::importer
