// SPDX-License-Identifier: Apache-2.0
#include "config_reader.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>

#include "config_describer.hpp"
#include "did_you_mean.hpp"
#include "json_reader.hpp"

namespace moegen {
namespace {

using nlohmann::json;

const json kNoObject = json::object();

// A value as messages show it: containers by their kind, the rest as written.
std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  if (value.is_string()) return fmt::format("'{}'", printable(value.get_ref<const std::string&>()));
  return value.dump();
}

// Names of the fields of the section at `pointer`; empty for an object that the field table does not hold.
std::vector<std::string_view> fields_of(std::string_view pointer) {
  std::vector<std::string_view> names;
  for (const FieldInfo& field : all_fields()) {
    const std::size_t slash = field.pointer.rfind('/');
    if (std::string_view(field.pointer).substr(0, slash) == pointer)
      names.push_back(std::string_view(field.pointer).substr(slash + 1));
  }
  return names;
}

// The pointer of the only field called `key`, wherever it stands: a right word may be in the wrong section.
std::string place_of(std::string_view key) {
  std::string found;
  for (const FieldInfo& field : all_fields()) {
    if (std::string_view(field.pointer).substr(field.pointer.rfind('/') + 1) != key) continue;
    if (!found.empty()) return {};
    found = field.pointer;
  }
  return found;
}

// What other programs call our dtypes; too far from torch's names for an edit distance.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOtherDtypeNames = {{
    {"bf16", "bfloat16"},
    {"fp16", "float16"},
    {"half", "float16"},
    {"fp32", "float32"},
    {"float", "float32"},
    {"fp8", "float8_e4m3fn"},
    {"fp8_e4m3", "float8_e4m3fn"},
    {"float8_e4m3", "float8_e4m3fn"},
    {"e8m0", "float8_e8m0fnu"},
    {"ue8m0", "float8_e8m0fnu"},
    {"fp4", "float4_e2m1fn"},
    {"e2m1", "float4_e2m1fn"},
}};

std::string suggestion_for(std::string_view text, const std::vector<std::string_view>& words) {
  for (const auto& [other, ours] : kOtherDtypeNames)
    if (text == other && std::find(words.begin(), words.end(), ours) != words.end())
      return fmt::format("; did you mean '{}'?", ours);
  return did_you_mean(text, words);
}

bool is_path(std::string_view text) { return text.find_first_of("./") != text.npos && printable(text) == text; }

template <class Value>
bool has_duplicate(const std::vector<Value>& values) {
  return std::set<Value>(values.begin(), values.end()).size() != values.size();
}

}  // namespace

// ---- levels ----

ConfigReader::ConfigReader(const json& root, std::string_view origin) : origin_(origin) {
  if (!root.is_object()) refuse_value("", root, allowed_section().text);
  levels_.push_back({&root, "", {}, {}});
  refuse_unknown_keys(levels_.back(), fields_of(""));
}

std::string ConfigReader::pointer_of(const Field& field) const {
  return child_pointer(levels_.back().pointer, field.name);
}

const json* ConfigReader::find(const Field& field) {
  Level& level = levels_.back();
  level.known.push_back(field.name);
  const auto found = level.object->find(field.name);
  if (found != level.object->end()) {
    given_.insert(pointer_of(field));
    return &*found;
  }
  if (field.required && level.missing.empty()) level.missing = pointer_of(field);
  return nullptr;
}

// A section that is not there reads as an empty object, so that its required fields are missed.
void ConfigReader::open_section(const Field& field, const json* value, bool nullable) {
  if (value != nullptr && !value->is_object())
    refuse_value(pointer_of(field), *value, (nullable ? or_null(allowed_section()) : allowed_section()).text);
  levels_.push_back({value == nullptr ? &kNoObject : value, pointer_of(field), {}, {}});
  // Before anything is read: a misspelt required field, or section, should be called misspelt and not missing.
  const std::vector<std::string_view> known = fields_of(levels_.back().pointer);
  if (!known.empty()) refuse_unknown_keys(levels_.back(), known);
}

void ConfigReader::close_section() {
  const Level level = std::move(levels_.back());
  levels_.pop_back();
  refuse_unknown_keys(level, level.known);
  if (!level.missing.empty()) refuse(level.missing, "is missing; this field is required");
}

void ConfigReader::refuse_unknown_keys(const Level& level, const std::vector<std::string_view>& known) const {
  for (const auto& [key, value] : level.object->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string elsewhere = place_of(key);
    const std::string hint =
        elsewhere.empty() ? did_you_mean(key, known) : fmt::format("; did you mean '{}'?", elsewhere);
    refuse(child_pointer(level.pointer, key),
           fmt::format("is not a field of a config; allowed here {}{}", fmt::join(known, ", "), hint));
  }
}

void ConfigReader::refuse(std::string_view pointer, const std::string& sentence) const {
  throw Error(ErrorCode::config, pointer.empty() ? fmt::format("{}: {}", origin_, sentence)
                                                 : fmt::format("{}: {}: {}", origin_, pointer, sentence));
}

void ConfigReader::refuse_value(std::string_view pointer, const json& value, std::string_view allowed,
                                std::string_view suggestion) const {
  refuse(pointer, fmt::format("is {}; allowed {}{}", shown(value), allowed, suggestion));
}

// ---- values ----

std::size_t ConfigReader::index_of(const Field& field, const json& value, const std::vector<std::string_view>& words,
                                   bool nullable) const {
  const std::string_view text = value.is_string() ? value.get_ref<const std::string&>() : std::string_view();
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  const Allowed allowed = nullable ? or_null(allowed_words(words)) : allowed_words(words);
  refuse_value(pointer_of(field), value, allowed.text, suggestion_for(text, words));
}

// `allowed` is called for a refusal only: a phrase costs more than a whole reading.
std::int64_t ConfigReader::read_integer(const std::string& pointer, const json& value, const Range& range,
                                        Allowed (*allowed)(const Range&)) const {
  // Unsigned values above the range would wrap in a signed comparison.
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() ||
                                                  value.get<std::uint64_t>() <= static_cast<std::uint64_t>(range.most));
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < range.least || number > range.most || number % range.step != 0)
    refuse_value(pointer, value, allowed(range).text);
  return number;
}

double ConfigReader::read_number(const Field& field, const json& value, const Interval& interval, bool nullable) const {
  const double number = value.is_number() ? value.get<double>() : 0;
  if (value.is_number() && number >= interval.least && number <= interval.most) return number;
  const Allowed allowed = nullable ? or_null(allowed_number(interval)) : allowed_number(interval);
  refuse_value(pointer_of(field), value, allowed.text);
}

Dtype ConfigReader::read_dtype(const Field& field, const json& value, std::span<const Dtype> dtypes,
                               bool nullable) const {
  return dtypes[index_of(field, value, texts_of(dtypes), nullable)];
}

template <class Int>
std::vector<Int> ConfigReader::read_list(const std::string& pointer, const json& value, const Range& range,
                                         Allowed (*allowed)(const Range&), bool unique) const {
  if (!value.is_array() || value.empty()) refuse_value(pointer, value, allowed(range).text);
  if (value.size() > kMaxList)
    refuse(pointer, fmt::format("has {} elements; allowed at most {}", value.size(), kMaxList));
  std::vector<Int> numbers;
  for (std::size_t i = 0; i < value.size(); ++i)
    numbers.push_back(
        static_cast<Int>(read_integer(child_pointer(pointer, std::to_string(i)), value[i], range, allowed_integer)));
  if (unique && has_duplicate(numbers)) refuse(pointer, "holds an element twice; allowed " + allowed(range).text);
  return numbers;
}

void ConfigReader::format(const Field& field, int supported) {
  const json* value = find(field);
  if (value == nullptr || *value == supported) return;
  refuse(pointer_of(field), fmt::format("is {}; this version reads format {}", shown(*value), supported));
}

void ConfigReader::name(const Field& field, std::string& out) {
  const json* value = find(field);
  if (value == nullptr) return;
  if (!value->is_string() || !is_name(value->get_ref<const std::string&>()))
    refuse_value(pointer_of(field), *value, allowed_name().text);
  out = value->get<std::string>();
}

void ConfigReader::boolean(const Field& field, bool& out) {
  const json* value = find(field);
  if (value == nullptr) return;
  if (!value->is_boolean()) refuse_value(pointer_of(field), *value, allowed_boolean().text);
  out = value->get<bool>();
}

void ConfigReader::integer(const Field& field, std::int64_t& out, const Range& range) {
  const json* value = find(field);
  if (value != nullptr) out = read_integer(pointer_of(field), *value, range, allowed_integer);
}

void ConfigReader::integer(const Field& field, int& out, const Range& range) {
  std::int64_t wide = out;
  integer(field, wide, range);
  out = static_cast<int>(wide);
}

void ConfigReader::integer_or_auto(const Field& field, std::optional<std::int64_t>& out, const Range& range) {
  const json* value = find(field);
  if (value == nullptr || *value == "auto") return;
  out = read_integer(pointer_of(field), *value, range, allowed_integer_or_auto);
}

void ConfigReader::choice_of(const Field& field, int& out, std::span<const std::int64_t> values) {
  const json* value = find(field);
  if (value == nullptr) return;
  const bool known = value->is_number_integer() && std::find(values.begin(), values.end(), *value) != values.end();
  if (!known) refuse_value(pointer_of(field), *value, allowed_integers(values).text);
  out = value->get<int>();
}

void ConfigReader::number(const Field& field, double& out, const Interval& interval, bool null_is_default) {
  const json* value = find(field);
  if (value == nullptr || (null_is_default && value->is_null())) return;
  out = read_number(field, *value, interval, null_is_default);
}

void ConfigReader::optional_number(const Field& field, std::optional<double>& out, const Interval& interval) {
  const json* value = find(field);
  if (value != nullptr && !value->is_null()) out = read_number(field, *value, interval, /*nullable=*/true);
}

void ConfigReader::dtype(const Field& field, Dtype& out, std::span<const Dtype> dtypes) {
  const json* value = find(field);
  if (value != nullptr) out = read_dtype(field, *value, dtypes, /*nullable=*/false);
}

void ConfigReader::optional_dtype(const Field& field, std::optional<Dtype>& out, std::span<const Dtype> dtypes) {
  const json* value = find(field);
  if (value != nullptr && !value->is_null()) out = read_dtype(field, *value, dtypes, /*nullable=*/true);
}

void ConfigReader::choice(const Field& field, Choice& out) {
  const json* value = find(field);
  if (value == nullptr) return;
  if (*value == "auto")
    out = Choice::automatic;
  else if (value->is_boolean())
    out = value->get<bool>() ? Choice::yes : Choice::no;
  else
    refuse_value(pointer_of(field), *value, allowed_choice().text);
}

void ConfigReader::text_of(const Field& field, std::string& out, std::span<const std::string_view> words) {
  const json* value = find(field);
  if (value != nullptr) out = words[index_of(field, *value, {words.begin(), words.end()})];
}

void ConfigReader::partition(const Field& field, std::vector<int>& out, const Range& range) {
  const json* value = find(field);
  if (value == nullptr || *value == "even") return;
  out = read_list<int>(pointer_of(field), *value, range, allowed_partition, /*unique=*/false);
}

void ConfigReader::integers(const Field& field, std::vector<std::int64_t>& out, const Range& range) {
  const json* value = find(field);
  if (value == nullptr) return;
  out = read_list<std::int64_t>(pointer_of(field), *value, range, allowed_integer_list, /*unique=*/true);
}

std::string ConfigReader::read_routing(const std::string& pointer, const json& value) const {
  constexpr std::string_view kAllowed = "uniform, zipf, one_hot or the path of a histogram file, with a '/' or a '.'";
  if (!value.is_string()) refuse_value(pointer, value, kAllowed);
  const auto& text = value.get_ref<const std::string&>();
  const std::vector<std::string_view> words(kRoutingWords.begin(), kRoutingWords.end());
  if (std::find(words.begin(), words.end(), text) == words.end() && !is_path(text))
    refuse_value(pointer, value, kAllowed, did_you_mean(text, words));
  return text;
}

void ConfigReader::routings(const Field& field, std::vector<std::string>& out) {
  const json* value = find(field);
  if (value == nullptr) return;
  const Allowed allowed = allowed_routings(kRoutingWords);
  const std::string pointer = pointer_of(field);
  if (!value->is_array() || value->empty()) refuse_value(pointer, *value, allowed.text);
  if (value->size() > kMaxList)
    refuse(pointer, fmt::format("has {} elements; allowed at most {}", value->size(), kMaxList));
  out.clear();
  for (std::size_t i = 0; i < value->size(); ++i)
    out.push_back(read_routing(child_pointer(pointer, std::to_string(i)), (*value)[i]));
  if (has_duplicate(out)) refuse(pointer, "holds an element twice; allowed " + allowed.text);
}

void ConfigReader::space(const Field& field, std::map<std::string, std::vector<std::int64_t>>& out) {
  const json* value = find(field);
  if (value == nullptr) return;
  const std::string pointer = pointer_of(field);
  if (!value->is_object()) refuse_value(pointer, *value, allowed_space().text);
  if (value->size() > kMaxList)
    refuse(pointer, fmt::format("has {} elements; allowed at most {}", value->size(), kMaxList));
  constexpr Range kAny{std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
  out.clear();
  for (const auto& [key, list] : value->items()) {
    const std::string place = child_pointer(pointer, key);
    if (!is_parameter_name(key))
      refuse(place, fmt::format("is not a parameter name; a lower-case letter, then lower-case letters, digits and "
                                "'_', at most {}",
                                kMaxName));
    out[key] = read_list<std::int64_t>(place, list, kAny, allowed_integer_list, /*unique=*/true);
  }
}

}  // namespace moegen
