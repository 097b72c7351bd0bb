// SPDX-License-Identifier: Apache-2.0
// What --json prints.
#pragma once

#include <nlohmann/json.hpp>

namespace moegen::cli {

using Json = nlohmann::ordered_json;

/// Prints `object` with two blanks a level and a newline at its end. Bytes that are not UTF-8 (in file names) are
/// replaced, because a JSON text cannot hold them.
void print_json(const Json& object);

}  // namespace moegen::cli
