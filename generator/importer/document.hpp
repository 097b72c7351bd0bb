// SPDX-License-Identifier: Apache-2.0
// Typed reading of a Hugging Face config.json: every value with the place it came from, every complaint with its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace moegen::importer {

/// A value and the words that name its origin.
template <class T>
struct Sourced {
  T value{};
  std::string source;
};

/// One object of a config.json. A `names` argument holds one or more keys, '|' between them: the first that is there
/// and not null counts. Where a value is a list with an entry for each layer, the entry of `layer` counts.
/// Every function throws: config, as `ORIGIN: /pointer: fact; what is allowed`.
class Document {
 public:
  Document(const nlohmann::json& node, std::string origin, std::string pointer);

  const std::string& origin() const noexcept { return origin_; }
  const std::string& pointer() const noexcept { return pointer_; }
  const nlohmann::json& node() const noexcept { return *node_; }

  /// The value at the first of `names` that is there and not null, or null.
  const nlohmann::json* find(std::string_view names) const;
  bool has(std::string_view names) const { return find(names) != nullptr; }
  /// Where the value is that `find` returns; where the first name would be if there is none.
  std::string place(std::string_view names) const;
  /// The object at `name`. Refuses any other type; nothing if it is missing or null.
  std::optional<Document> child(std::string_view name) const;

  Sourced<std::int64_t> integer(std::string_view names, int layer = -1) const;
  std::optional<Sourced<std::int64_t>> find_integer(std::string_view names, int layer = -1) const;
  std::optional<Sourced<double>> find_number(std::string_view names, int layer = -1) const;
  std::optional<Sourced<bool>> find_boolean(std::string_view names) const;
  std::optional<Sourced<std::string>> find_text(std::string_view names) const;
  /// Texts of a list; empty if it is missing.
  std::vector<std::string> texts(std::string_view names) const;
  std::vector<std::int64_t> integers(std::string_view names) const;

  /// Throws: config for the value at `names`, or for this object where `names` is "".
  [[noreturn]] void refuse(std::string_view names, std::string_view sentence) const;
  [[noreturn]] void refuse_missing(std::string_view names) const;

 private:
  const nlohmann::json* entry(std::string_view names, int layer, std::string& place) const;
  [[noreturn]] void refuse_at(std::string_view place, std::string_view sentence) const;
  [[noreturn]] void refuse_type(std::string_view place, const nlohmann::json& value, std::string_view wanted) const;

  const nlohmann::json* node_;
  std::string origin_;
  std::string pointer_;
};

/// "a|b" as "'a' or 'b'".
std::string spell_names(std::string_view names);

/// `value` on one line, cut where it is long.
std::string preview(const nlohmann::json& value);

}  // namespace moegen::importer
