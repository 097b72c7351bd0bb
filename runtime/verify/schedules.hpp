// SPDX-License-Identifier: Apache-2.0
// A kernel under the schedules that a run asks for.
#pragma once

#include <vector>

#include <moegen/cpu_target.hpp>
#include <moegen/kernel.hpp>

namespace moegen::verify {

/// `kernel` with each of `schedules`, in order; as it is where there are none, or none to set (the cuda target).
inline std::vector<Kernel> with_schedules(const Kernel& kernel, const std::vector<CpuOptions>& schedules) {
  if (kernel.target() != Target::cpu || schedules.empty()) return {kernel};
  std::vector<Kernel> all;
  for (const CpuOptions& schedule : schedules) all.push_back(with_schedule(kernel, schedule));
  return all;
}

}  // namespace moegen::verify
