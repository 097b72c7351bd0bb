// SPDX-License-Identifier: Apache-2.0
// A config in the making: values with their sources, in the order in which the file shows them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <moegen/importer.hpp>

namespace moegen::importer {

class Draft {
 public:
  void put(std::string_view pointer, const nlohmann::ordered_json& value, std::string source);
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }

  /// JSON text, two-space indent, a newline at the end.
  std::string text() const { return tree_.dump(2) + "\n"; }
  const std::vector<ImportedValue>& values() const noexcept { return values_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  nlohmann::ordered_json tree_;
  std::vector<ImportedValue> values_;
  std::vector<std::string> notes_;
};

}  // namespace moegen::importer
