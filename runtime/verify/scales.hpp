// SPDX-License-Identifier: Apache-2.0
// What a launch that quantises is given beside its rows: a scale of the whole tensor, a stride of transposed scales.
#pragma once

#include <cstdint>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "verify/memory.hpp"
#include "verify/row_pattern.hpp"

namespace moegen::verify {

struct GlobalScale {
  float value = 0;
  Memory device;  ///< null where the plan's scheme has none
};

/// A scale (tensor) under which ordinary values are codes of all sizes, or a factor (nvfp4) as a calibration gives it.
GlobalScale global_scale(Target target, const Config& config, const Plan& plan);

/// A stride for column scales that is not the default, in every pattern but the ordinary one; else 0.
std::int64_t own_stride(const Config& config, RowsPattern pattern, std::int64_t num_rows);

}  // namespace moegen::verify
