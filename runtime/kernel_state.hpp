// SPDX-License-Identifier: Apache-2.0
// Kernel::State: everything that a launch reads, laid out when the kernel is made ready so that a launch only reads.
// Each target has its own (cuda/loaded_kernel.hpp, cpu/launcher/loaded_kernel.hpp).
#pragma once

#include <string>
#include <utility>

#include <moegen/family.hpp>
#include <moegen/kernel.hpp>
#include <moegen/plan.hpp>
#include <moegen/target.hpp>

namespace moegen {

struct Kernel::State : MapEncoder {
  State(Plan made_plan, const Family& made_family, std::string made_label)
      : plan(std::move(made_plan)),
        family(made_family),
        label(std::move(made_label)),
        constants(family.constants(plan)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  virtual Target target() const noexcept = 0;
  /// Facts of the device that the calling thread would launch on. Throws: driver where there is none or it was never
  /// prepared.
  virtual const LaunchDevice& current_device() const = 0;
  /// Launches; `args` was checked and there is work. Throws: driver; kernel (CPU target only).
  virtual void launch(const Launch& what, const void* args, CUstream_st* stream) const = 0;

  const Plan plan;
  const Family& family;
  const std::string label;  ///< "create_indices of 'deepseek_v3' for sm_90a"
  const LaunchConstants constants;
};

}  // namespace moegen
