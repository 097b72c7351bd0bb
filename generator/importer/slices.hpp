// SPDX-License-Identifier: Apache-2.0
// One rank's part of a layer: experts under expert parallelism, intermediate width under tensor parallelism.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <moegen/config.hpp>

#include "importer/document.hpp"

namespace moegen::importer {

/// Elements that a slice of the intermediate width must be a multiple of: a 16-byte piece of a row, and the group or
/// block that shares a scale.
std::int64_t slice_step(Scheme scheme, Dtype weight) noexcept;

/// The width of one of `ranks` slices of `width`, which stands at `place`.
/// Throws: config where a slice is no whole number or no multiple of `step`, with the nearest legal widths.
std::int64_t slice_width(std::string_view origin, const Sourced<std::int64_t>& width, int ranks, std::int64_t step);

struct ExpertRange {
  std::int64_t first = 0, count = 0;
};

/// The experts of `rank`, the first ranks taking one more where `ranks` does not divide (the "even" partition).
ExpertRange slice_experts(std::int64_t num_experts, int ranks, int rank) noexcept;

}  // namespace moegen::importer
