// SPDX-License-Identifier: Apache-2.0
// The generated parts of docs/config.md and all of configs/schema.json, made from the field table.
#pragma once

#include <string>

namespace moegen::test {

/// Markdown: one table a section, in the order of the field table.
std::string field_tables();

/// Markdown: what an expression may read at each of its places.
std::string expression_table();

/// JSON Schema 2020-12 of a config, for editors.
std::string config_schema();

}  // namespace moegen::test
