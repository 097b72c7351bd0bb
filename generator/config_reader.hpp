// SPDX-License-Identifier: Apache-2.0
// The visitor of the field table that fills ConfigFields from a JSON tree.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <moegen/config.hpp>

#include "config_allowed.hpp"
#include "config_words.hpp"

namespace moegen {

/// Pointers of the fields that a text gave.
using GivenFields = std::set<std::string, std::less<>>;

/// Reads one JSON tree. Every method takes a row of the field table and the member that it fills; a missing field
/// leaves the member alone. Throws: config, as `ORIGIN: /json/pointer: fact; what is allowed[; did you mean 'x'?]`.
class ConfigReader {
 public:
  /// `root` must outlive the reader. Throws if it is not an object.
  ConfigReader(const nlohmann::json& root, std::string_view origin);

  /// Ends the reading of the root: refuses unknown and missing keys there.
  void finish() { close_section(); }
  const GivenFields& given() const noexcept { return given_; }

  void format(const Field& field, int supported);
  void name(const Field& field, std::string& out);
  void boolean(const Field& field, bool& out);
  void integer(const Field& field, std::int64_t& out, const Range& range);
  void integer(const Field& field, int& out, const Range& range);
  void integer_or_auto(const Field& field, std::optional<std::int64_t>& out, const Range& range);
  void choice_of(const Field& field, int& out, std::span<const std::int64_t> values);
  void number(const Field& field, double& out, const Interval& interval, bool null_is_default = false);
  void optional_number(const Field& field, std::optional<double>& out, const Interval& interval);
  void dtype(const Field& field, Dtype& out, std::span<const Dtype> dtypes);
  void optional_dtype(const Field& field, std::optional<Dtype>& out, std::span<const Dtype> dtypes);
  void choice(const Field& field, Choice& out);
  void text_of(const Field& field, std::string& out, std::span<const std::string_view> words);
  void partition(const Field& field, std::vector<int>& out, const Range& range);
  void integers(const Field& field, std::vector<std::int64_t>& out, const Range& range);
  void routings(const Field& field, std::vector<std::string>& out);
  void space(const Field& field, std::map<std::string, std::vector<std::int64_t>>& out);
  void expression(const Field& field, const Field& inputs, std::optional<ExpressionConfig>& out);

  template <class Enum, std::size_t kCount>
  void word(const Field& field, Enum& out, const std::array<Word<Enum>, kCount>& words) {
    const nlohmann::json* value = find(field);
    if (value != nullptr) out = words[index_of(field, *value, texts_of(words))].value;
  }

  template <class Struct, class Body>
  void section(const Field& field, Struct& out, const Body& body) {
    open_section(field, find(field));
    body(out);
    close_section();
  }

  template <class Struct, class Body>
  void optional_section(const Field& field, std::optional<Struct>& out, const Body& body) {
    const nlohmann::json* value = find(field);
    if (value == nullptr || value->is_null()) return;
    open_section(field, value, /*nullable=*/true);
    body(out.emplace());
    close_section();
  }

  /// A section whose absence is a `count` of 0.
  template <class Struct, class Body>
  void counted_section(const Field& field, Struct& out, const Body& body) {
    const nlohmann::json* value = find(field);
    if (value == nullptr || value->is_null()) return;
    open_section(field, value, /*nullable=*/true);
    body(out);
    close_section();
  }

 private:
  // One object being read.
  struct Level {
    const nlohmann::json* object = nullptr;
    std::string pointer;
    std::vector<std::string_view> known;  // fields asked for so far
    std::string missing;                  // pointer of the first required field that is not there
  };

  const nlohmann::json* find(const Field& field);
  std::string pointer_of(const Field& field) const;
  void open_section(const Field& field, const nlohmann::json* value, bool nullable = false);
  void close_section();
  void refuse_unknown_keys(const Level& level, const std::vector<std::string_view>& known) const;

  std::size_t index_of(const Field& field, const nlohmann::json& value, const std::vector<std::string_view>& words,
                       bool nullable = false) const;
  std::int64_t read_integer(const std::string& pointer, const nlohmann::json& value, const Range& range,
                            Allowed (*allowed)(const Range&)) const;
  double read_number(const Field& field, const nlohmann::json& value, const Interval& interval, bool nullable) const;
  Dtype read_dtype(const Field& field, const nlohmann::json& value, std::span<const Dtype> dtypes, bool nullable) const;
  template <class Int>
  std::vector<Int> read_list(const std::string& pointer, const nlohmann::json& value, const Range& range,
                             Allowed (*allowed)(const Range&), bool unique) const;
  std::string read_routing(const std::string& pointer, const nlohmann::json& value) const;
  ExpressionConfig read_expression(const Field& field, const nlohmann::json& value, const nlohmann::json* inputs,
                                   const Field& inputs_field);
  void read_inputs(const Field& field, const nlohmann::json& value, std::string_view place,
                   std::vector<ExpressionInput>& out);
  void text(const Field& field, std::string& out);
  void check_expression(std::string_view place, const std::string& inputs_pointer,
                        const ExpressionConfig& expression) const;
  std::vector<std::string> names_used(std::string_view place, const ExpressionConfig& expression) const;

  [[noreturn]] void refuse(std::string_view pointer, const std::string& sentence) const;
  [[noreturn]] void refuse_value(std::string_view pointer, const nlohmann::json& value, std::string_view allowed,
                                 std::string_view suggestion = {}) const;

  std::string origin_;
  std::vector<Level> levels_;
  GivenFields given_;
};

}  // namespace moegen
