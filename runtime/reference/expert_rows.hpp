// SPDX-License-Identifier: Apache-2.0
// What expressions over rows of experts (experts.up_epilogue, experts.down_epilogue) read, in plain code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <moegen/config.hpp>

namespace moegen::reference {

/// The id in the model of a local expert: local ones are renumbered from first_expert on, shared slots follow all
/// routed and zero experts. -1 (none) stays -1.
std::int64_t model_expert(const ConfigFields& fields, std::int64_t local);

/// Elements of a named input by the word `shape`.
std::int64_t expert_input_count(std::string_view shape, std::int64_t rows, std::int64_t columns, std::int64_t experts);

/// The element that a row and column read; of those by expert, expert -1 reads what expert 0 does.
std::size_t expert_input_index(std::string_view shape, std::int64_t row, std::int64_t column, std::int64_t columns,
                               std::int64_t expert);

}  // namespace moegen::reference
