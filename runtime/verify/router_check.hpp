// SPDX-License-Identifier: Apache-2.0
// Whether one row of a router's output keeps every rule, whatever float32 may decide.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <moegen/config.hpp>

#include "reference/router.hpp"

namespace moegen::verify {

/// The first rule that `ids` and `weights`, the slots of `token`, break; nothing if none.
std::optional<std::string> wrong_row(const ConfigFields& fields, const reference::RouterInputs& inputs,
                                     std::int64_t token, std::span<const std::int32_t> ids,
                                     const std::vector<double>& weights);

}  // namespace moegen::verify
