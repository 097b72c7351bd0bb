// SPDX-License-Identifier: Apache-2.0
#include "importer/document.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <moegen/error.hpp>

#include "json_reader.hpp"

namespace moegen::importer {

using nlohmann::json;

namespace {

std::string_view first_name(std::string_view names) { return names.substr(0, names.find('|')); }

std::string_view rest(std::string_view names) {
  const std::size_t bar = names.find('|');
  return bar == std::string_view::npos ? std::string_view() : names.substr(bar + 1);
}

}  // namespace

std::string spell_names(std::string_view names) {
  std::string text;
  for (; !names.empty(); names = rest(names))
    text += fmt::format("{}'{}'", text.empty() ? "" : " or ", first_name(names));
  return text;
}

std::string preview(const json& value) { return printable(value.dump(-1, ' ', true, json::error_handler_t::replace)); }

Document::Document(const json& node, std::string origin, std::string pointer)
    : node_(&node), origin_(std::move(origin)), pointer_(std::move(pointer)) {}

void Document::refuse_at(std::string_view place, std::string_view sentence) const {
  throw Error(ErrorCode::config, fmt::format("{}: {}: {}", origin_, place.empty() ? "/" : place, sentence));
}

void Document::refuse(std::string_view names, std::string_view sentence) const {
  refuse_at(names.empty() ? pointer_ : place(names), sentence);
}

void Document::refuse_missing(std::string_view names) const {
  refuse_at(pointer_, fmt::format("has no {}, which is needed", spell_names(names)));
}

void Document::refuse_type(std::string_view place, const json& value, std::string_view wanted) const {
  refuse_at(place, fmt::format("is {}; allowed {}", preview(value), wanted));
}

const json* Document::find(std::string_view names) const {
  for (; !names.empty(); names = rest(names)) {
    const auto found = node_->find(std::string(first_name(names)));
    if (found != node_->end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

std::string Document::place(std::string_view names) const {
  for (std::string_view left = names; !left.empty(); left = rest(left))
    if (find(first_name(left)) != nullptr) return child_pointer(pointer_, first_name(left));
  return child_pointer(pointer_, first_name(names));
}

std::optional<Document> Document::child(std::string_view name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse_type(place(name), *value, "an object");
  return Document(*value, origin_, place(name));
}

// The value at `names`, or its entry for `layer` where it is a list by layer.
const json* Document::entry(std::string_view names, int layer, std::string& place) const {
  const json* value = find(names);
  if (value == nullptr) return nullptr;
  place = this->place(names);
  if (!value->is_array() || layer < 0) return value;
  if (static_cast<std::size_t>(layer) >= value->size())
    refuse_at(place, fmt::format("has {} entries, none for layer {}; one entry a layer", value->size(), layer));
  place = child_pointer(place, std::to_string(layer));
  value = &(*value)[static_cast<std::size_t>(layer)];
  return value->is_null() ? nullptr : value;
}

std::optional<Sourced<std::int64_t>> Document::find_integer(std::string_view names, int layer) const {
  std::string place;
  const json* value = entry(names, layer, place);
  if (value == nullptr) return std::nullopt;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const bool fits =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= kMost);
  if (!fits || value->get<std::int64_t>() < 0 || value->get<std::int64_t>() > kMost)
    refuse_type(place, *value, "an integer from 0 up");
  return Sourced<std::int64_t>{value->get<std::int64_t>(), place};
}

Sourced<std::int64_t> Document::integer(std::string_view names, int layer) const {
  const auto found = find_integer(names, layer);
  if (!found) refuse_missing(names);
  return *found;
}

std::optional<Sourced<double>> Document::find_number(std::string_view names, int layer) const {
  std::string place;
  const json* value = entry(names, layer, place);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse_type(place, *value, "a number");
  return Sourced<double>{value->get<double>(), place};
}

std::optional<Sourced<bool>> Document::find_boolean(std::string_view names) const {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(place(names), *value, "true or false");
  return Sourced<bool>{value->get<bool>(), place(names)};
}

std::optional<Sourced<std::string>> Document::find_text(std::string_view names) const {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(place(names), *value, "a text");
  return Sourced<std::string>{value->get<std::string>(), place(names)};
}

std::vector<std::string> Document::texts(std::string_view names) const {
  const json* value = find(names);
  if (value == nullptr) return {};
  std::vector<std::string> list;
  if (!value->is_array()) refuse_type(place(names), *value, "a list of texts");
  for (const json& item : *value) {
    if (!item.is_string()) refuse_type(place(names), item, "texts in this list");
    list.push_back(item.get<std::string>());
  }
  return list;
}

std::vector<std::int64_t> Document::integers(std::string_view names) const {
  const json* value = find(names);
  if (value == nullptr) return {};
  std::vector<std::int64_t> list;
  if (!value->is_array()) refuse_type(place(names), *value, "a list of integers");
  for (const json& item : *value) {
    if (!item.is_number_integer()) refuse_type(place(names), item, "integers in this list");
    list.push_back(item.get<std::int64_t>());
  }
  return list;
}

}  // namespace moegen::importer
