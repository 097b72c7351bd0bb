// SPDX-License-Identifier: Apache-2.0
#include <moegen/importer.hpp>

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <moegen/config.hpp>
#include <moegen/error.hpp>

#include "config_allowed.hpp"
#include "did_you_mean.hpp"
#include "importer/builder.hpp"
#include "json_reader.hpp"

namespace moegen {
namespace {

using namespace importer;
using nlohmann::json;

// Keys by which any config.json betrays experts; a dense model has none of them.
bool names_experts(const json& node) {
  return std::any_of(node.items().begin(), node.items().end(),
                     [](const auto& item) { return item.key().find("expert") != std::string::npos; });
}

[[noreturn]] void refuse_model_type(const Document& text, const std::string& name) {
  if (!names_experts(text.node()))
    text.refuse("model_type",
                fmt::format("is '{}' and no field names experts: a dense model; a Mixture-of-Experts model "
                            "is needed",
                            printable(name)));
  const std::vector<std::string_view> known = importable_model_types();
  text.refuse("model_type", fmt::format("is '{}', which is not known; known are {}{}", printable(name),
                                        fmt::join(known, ", "), did_you_mean(name, known)));
}

// The model_type of a text_config may be missing, or a word that only the whole model's row has.
const ModelType& find_row(const Document& root, const Document& text, std::string& name) {
  for (const Document* holder : {&text, &root}) {
    const auto word = holder->find_text("model_type");
    if (!word) continue;
    if (name.empty()) name = word->value;
    if (const ModelType* row = find_model_type(word->value)) {
      name = word->value;
      return *row;
    }
  }
  if (name.empty()) text.refuse_missing("model_type");
  refuse_model_type(text, name);
}

void check_row(const Document& text, const ModelType& row, const std::string& name) {
  if (!row.refusal.empty()) text.refuse("model_type", fmt::format("'{}' {}", name, row.refusal));
  if (row.must_be_true.empty()) return;
  const auto on = text.find_boolean(row.must_be_true);
  if (!on || !on->value)
    text.refuse("", fmt::format("has no '{}': true, so it is a dense model; a Mixture-of-Experts model is needed",
                                row.must_be_true));
}

void check_options(std::string_view origin, const ImportOptions& options) {
  const auto refuse = [&](std::string_view option, std::int64_t value, std::string_view allowed) {
    throw Error(ErrorCode::config, fmt::format("{}: {}: is {}; allowed {}", origin, option, value, allowed));
  };
  if (options.expert_parallel < 1) refuse("--expert-parallel", options.expert_parallel, "an integer from 1 up");
  if (options.tensor_parallel < 1) refuse("--tensor-parallel", options.tensor_parallel, "an integer from 1 up");
  if (options.expert_parallel_rank < 0 || options.expert_parallel_rank >= options.expert_parallel)
    refuse("--rank", options.expert_parallel_rank, fmt::format("0 to {}", options.expert_parallel - 1));
}

std::string file_name(std::string_view origin) { return std::filesystem::path(origin).filename().string(); }

// A config's name from the file's: letters, digits, '.', '_' and '-' survive.
std::string name_from(std::string_view origin, const std::string& model_type) {
  std::string name = std::filesystem::path(origin).stem().string();
  if (name == "config" || origin.starts_with('<')) name = model_type;
  for (char& c : name)
    if (!is_name(std::string("a") + c)) c = '-';
  while (!name.empty() && !is_name(name.substr(0, 1))) name.erase(0, 1);
  constexpr std::size_t kLongest = 128;
  name.resize(std::min(name.size(), kLongest));
  return name.empty() ? model_type : name;
}

std::string header(std::string_view origin, const Model& model, const std::string& model_type, std::size_t num_layers,
                   const std::vector<LayerKind>& kinds) {
  const auto chosen = std::find_if(kinds.begin(), kinds.end(), [](const LayerKind& kind) { return kind.chosen; });
  return fmt::format("// Made by moegen import from {}: model_type {}, layer {} of {} ({}, {} alike).\n",
                     printable(file_name(origin)), printable(model_type), model.layer, num_layers, chosen->description,
                     chosen->layers.size());
}

// The reader's own rules are the last word on what was put together.
void check_config(const std::string& text, std::string_view origin) {
  Config::from_json(text, fmt::format("{}: as a moegen config", origin));
}

}  // namespace

std::vector<std::string_view> importable_model_types() {
  std::vector<std::string_view> names;
  for (const ModelType& row : model_types()) {
    if (!row.refusal.empty()) continue;
    for (std::string_view list = row.names; !list.empty();) {
      const std::size_t bar = list.find('|');
      names.push_back(list.substr(0, bar));
      list = bar == std::string_view::npos ? std::string_view() : list.substr(bar + 1);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

ImportResult import_hf(std::string_view text, std::string_view origin, const ImportOptions& options) {
  check_options(origin, options);
  const json tree = parse_json(text, origin);
  if (!tree.is_object())
    throw Error(ErrorCode::config, fmt::format("{}: /: is {}; a config.json holds an object", origin, preview(tree)));
  const Document root(tree, std::string(origin), "");
  const Document language = root.child("text_config").value_or(root);
  std::string model_type;
  const ModelType& row = find_row(root, language, model_type);
  check_row(language, row, model_type);
  const std::string section_name(row.section);
  const auto section = row.section.empty() ? language : language.child(section_name);
  if (!section) language.refuse_missing(section_name);

  ImportResult result;
  const std::vector<LayerRole> roles = layer_roles(language, row);
  result.layers = layer_kinds(language, *section, row, roles);
  Model model{root, language, *section, row};
  model.layer = choose_layer(language, options.layer, roles, result.layers);
  model.role = roles[static_cast<std::size_t>(model.layer)];

  const std::string name = options.name.empty() ? name_from(origin, model_type) : options.name;
  const Draft draft = build_config(model, name, options);
  result.config = header(origin, model, model_type, roles.size(), result.layers) + draft.text();
  check_config(result.config, origin);
  result.model_type = model_type;
  result.values = draft.values();
  result.notes = draft.notes();
  return result;
}

}  // namespace moegen
