// SPDX-License-Identifier: Apache-2.0
// What the fields of a config owe to each other: defaults that follow from other fields, and combinations that are
// refused. The range of a single field is the field table's affair (config_fields.hpp).
#pragma once

#include <string_view>

#include <moegen/config.hpp>

#include "config_reader.hpp"

namespace moegen {

/// Fills the fields that `given` lacks and whose default follows from others.
void resolve_defaults(ConfigFields& fields, const GivenFields& given);

/// Throws: config, as `ORIGIN: /json/pointer: fact; what is allowed`, at the first combination that no kernel can
/// serve.
void check_rules(const ConfigFields& fields, std::string_view origin);

}  // namespace moegen
