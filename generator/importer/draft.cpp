// SPDX-License-Identifier: Apache-2.0
#include "importer/draft.hpp"

#include <utility>

namespace moegen::importer {

void Draft::put(std::string_view pointer, const nlohmann::ordered_json& value, std::string source) {
  tree_[nlohmann::ordered_json::json_pointer(std::string(pointer))] = value;
  values_.push_back({std::string(pointer), value.dump(), std::move(source)});
}

}  // namespace moegen::importer
