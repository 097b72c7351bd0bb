// SPDX-License-Identifier: Apache-2.0
// What a field may hold, said once: as a phrase for messages and docs, and as a JSON Schema for editors.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <moegen/dtype.hpp>

namespace moegen {

/// One row of the table.
struct Field {
  std::string_view name;
  std::string_view doc;
  /// For defaults that depend on other fields: how. Empty: the member's own initial value.
  std::string_view derived = {};
  bool required = false;
};

/// Both ends belong to the range.
struct Range {
  std::int64_t least = 1, most = std::numeric_limits<std::int64_t>::max();
  std::int64_t step = 1;  ///< the value is a multiple of this
};

struct Interval {
  double least = 0, most = 0;
};

inline constexpr double kMaxFloat = 3.4028234663852886e38;   // largest finite float32
inline constexpr double kMinFloat = 1.1754943508222875e-38;  // smallest normal float32
inline constexpr Interval kAnyFloat{-kMaxFloat, kMaxFloat};
inline constexpr Interval kPositiveFloat{kMinFloat, kMaxFloat};

/// What a value may be.
struct Allowed {
  std::string text;       ///< after "allowed ", e.g. "an integer from 1 to 2048"
  nlohmann::json schema;  ///< the same as a JSON Schema
};

Allowed allowed_boolean();
Allowed allowed_integer(const Range& range);
Allowed allowed_integer_or_auto(const Range& range);
Allowed allowed_integers(std::span<const std::int64_t> values);
Allowed allowed_number(const Interval& interval);
Allowed allowed_words(const std::vector<std::string_view>& words);
Allowed allowed_dtypes(std::span<const Dtype> dtypes);
Allowed allowed_choice();
Allowed allowed_name();
Allowed allowed_section();
Allowed allowed_partition(const Range& range);
Allowed allowed_integer_list(const Range& range);
Allowed allowed_routings(std::span<const std::string_view> words);
Allowed allowed_space();
Allowed allowed_expression();
Allowed allowed_inputs();
/// `allowed` or null.
Allowed or_null(Allowed allowed);

/// Longest text of a name, bytes.
inline constexpr std::size_t kMaxName = 128;
/// Most elements of a list, and most parameters of tune.space.
inline constexpr std::size_t kMaxList = 1024;

/// True for what a name may be: a letter or digit, then letters, digits, '.', '_' and '-', at most kMaxName.
bool is_name(std::string_view text) noexcept;
/// True for the name of a tuning parameter: a lower-case letter, then lower-case letters, digits and '_'.
bool is_parameter_name(std::string_view text) noexcept;

}  // namespace moegen
