// SPDX-License-Identifier: Apache-2.0
// The visitor of the field table that lists it: what docs/config.md, configs/schema.json and suggestions are made of.
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

/// One row of the field table, as readers of docs and editors see it.
struct FieldInfo {
  std::string pointer;            ///< "/router/scale"
  std::string_view doc;           ///< one sentence
  Allowed allowed;                ///< values that the field alone admits
  nlohmann::json standard;        ///< the default; of no meaning where `required` or `derived`
  std::string_view derived = {};  ///< for a default that follows from other fields: how
  bool required = false;
  bool is_section = false;
};

/// Every field of a config, in the order of the table.
const std::vector<FieldInfo>& all_fields();

/// Collects all_fields(). The members that it visits hold their defaults.
class ConfigDescriber {
 public:
  std::vector<FieldInfo> take() { return std::move(fields_); }

  void format(const Field& field, int supported);
  void name(const Field& field, const std::string& value) { add(field, allowed_name(), value); }
  void boolean(const Field& field, bool value) { add(field, allowed_boolean(), value); }
  void integer(const Field& field, std::int64_t value, const Range& range) {
    add(field, allowed_integer(range), value);
  }
  void integer_or_auto(const Field& field, const std::optional<std::int64_t>&, const Range& range) {
    add(field, allowed_integer_or_auto(range), "auto");
  }
  void choice_of(const Field& field, int value, std::span<const std::int64_t> values) {
    add(field, allowed_integers(values), value);
  }
  void number(const Field& field, double value, const Interval& interval, bool null_is_default = false);
  void optional_number(const Field& field, const std::optional<double>&, const Interval& interval) {
    add(field, or_null(allowed_number(interval)), nullptr);
  }
  void dtype(const Field& field, Dtype value, std::span<const Dtype> dtypes) {
    add(field, allowed_dtypes(dtypes), to_string(value));
  }
  void optional_dtype(const Field& field, const std::optional<Dtype>&, std::span<const Dtype> dtypes) {
    add(field, or_null(allowed_dtypes(dtypes)), nullptr);
  }
  void choice(const Field& field, Choice) { add(field, allowed_choice(), "auto"); }
  void text_of(const Field& field, const std::string& value, std::span<const std::string_view> words) {
    add(field, allowed_words({words.begin(), words.end()}), value);
  }
  void partition(const Field& field, const std::vector<int>&, const Range& range) {
    add(field, allowed_partition(range), "even");
  }
  void integers(const Field& field, const std::vector<std::int64_t>& value, const Range& range) {
    add(field, allowed_integer_list(range), value);
  }
  void routings(const Field& field, const std::vector<std::string>& value) {
    add(field, allowed_routings(kRoutingWords), value);
  }
  void space(const Field& field, const std::map<std::string, std::vector<std::int64_t>>&) {
    add(field, allowed_space(), nlohmann::json::object());
  }
  void expression(const Field& field, const Field& inputs, const std::optional<ExpressionConfig>&);

  template <class Enum, std::size_t kCount>
  void word(const Field& field, Enum value, const std::array<Word<Enum>, kCount>& words) {
    add(field, allowed_words(texts_of(words)), word_of<Enum>(value, words));
  }

  template <class Struct, class Body>
  void section(const Field& field, const Struct& value, const Body& body) {
    describe_section(field, allowed_section(), nlohmann::json::object(), value, body);
  }

  template <class Struct, class Body>
  void optional_section(const Field& field, const std::optional<Struct>&, const Body& body) {
    describe_section(field, or_null(allowed_section()), nullptr, Struct{}, body);
  }

  template <class Struct, class Body>
  void counted_section(const Field& field, const Struct& value, const Body& body) {
    describe_section(field, or_null(allowed_section()), nullptr, value, body);
  }

 private:
  void add(const Field& field, Allowed allowed, nlohmann::json standard, bool is_section = false);

  template <class Struct, class Body>
  void describe_section(const Field& field, Allowed allowed, nlohmann::json standard, const Struct& value,
                        const Body& body) {
    add(field, std::move(allowed), std::move(standard), /*is_section=*/true);
    const std::string outer = prefix_;
    prefix_ = fields_.back().pointer;
    body(value);
    prefix_ = outer;
  }

  std::vector<FieldInfo> fields_;
  std::string prefix_;
};

}  // namespace moegen
