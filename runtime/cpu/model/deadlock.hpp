// SPDX-License-Identifier: Apache-2.0
// What is said where no thread can run.
#pragma once

#include <moegen/cpu_target.hpp>

#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

/// One party for each group of threads of a block that wait alike.
CpuReport describe_deadlock(const Scheduler& scheduler);

/// "0..3, 7" of ascending numbers.
std::string ranges(std::span<const std::uint32_t> numbers);

}  // namespace moegen::cpu
