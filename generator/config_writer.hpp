// SPDX-License-Identifier: Apache-2.0
// The visitor of the field table that turns ConfigFields into their canonical JSON tree.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <moegen/config.hpp>

#include "config_allowed.hpp"
#include "config_words.hpp"

namespace moegen {

/// Writes every field. What no JSON can say (a value outside its enum, a number that is not finite, a text that is not
/// UTF-8) is refused. Throws: config, as `ORIGIN: /json/pointer: fact; what is allowed`.
class ConfigWriter {
 public:
  explicit ConfigWriter(std::string_view origin) : origin_(origin) {}

  const nlohmann::json& tree() const noexcept { return tree_; }

  void format(const Field& field, int supported) { put(field, supported); }
  void name(const Field& field, const std::string& value) { put_text(field, value); }
  void boolean(const Field& field, bool value) { put(field, value); }
  void integer(const Field& field, std::int64_t value, const Range& range);
  void integer_or_auto(const Field& field, const std::optional<std::int64_t>& value, const Range& range);
  void choice_of(const Field& field, int value, std::span<const std::int64_t>) { put(field, value); }
  void number(const Field& field, double value, const Interval&, bool null_is_default = false);
  void optional_number(const Field& field, const std::optional<double>& value, const Interval& interval);
  void dtype(const Field& field, Dtype value, std::span<const Dtype> dtypes);
  void optional_dtype(const Field& field, const std::optional<Dtype>& value, std::span<const Dtype> dtypes);
  void choice(const Field& field, Choice value);
  void text_of(const Field& field, const std::string& value, std::span<const std::string_view>) {
    put_text(field, value);
  }
  void partition(const Field& field, const std::vector<int>& value, const Range& range);
  void integers(const Field& field, const std::vector<std::int64_t>& value, const Range&) { put(field, value); }
  void routings(const Field& field, const std::vector<std::string>& value);
  void space(const Field& field, const std::map<std::string, std::vector<std::int64_t>>& value);
  void expression(const Field& field, const Field& inputs, const std::optional<ExpressionConfig>& value);

  template <class Enum, std::size_t kCount>
  void word(const Field& field, Enum value, const std::array<Word<Enum>, kCount>& words) {
    const std::string_view text = word_of<Enum>(value, words);
    if (text.empty()) refuse_value(field, allowed_words(texts_of(words)).text);
    put(field, text);
  }

  template <class Struct, class Body>
  void section(const Field& field, const Struct& value, const Body& body) {
    open(field);
    body(value);
    close();
  }

  template <class Struct, class Body>
  void optional_section(const Field& field, const std::optional<Struct>& value, const Body& body) {
    if (value)
      section(field, *value, body);
    else
      put(field, nullptr);
  }

  template <class Struct, class Body>
  void counted_section(const Field& field, const Struct& value, const Body& body) {
    if (value.count != 0)
      section(field, value, body);
    else
      put(field, nullptr);
  }

 private:
  void put(const Field& field, nlohmann::json value);
  void put_text(const Field& field, const std::string& value);
  void open(const Field& field);
  void close();
  nlohmann::json inputs_of(const Field& field, const std::vector<ExpressionInput>& inputs) const;
  void check_text(const Field& field, const std::string& value) const;
  [[noreturn]] void refuse(const Field& field, std::string_view sentence) const;
  [[noreturn]] void refuse_value(const Field& field, std::string_view allowed) const;

  std::string origin_;
  nlohmann::json tree_ = nlohmann::json::object();
  nlohmann::json::json_pointer place_;
};

}  // namespace moegen
