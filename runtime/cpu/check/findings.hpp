// SPDX-License-Identifier: Apache-2.0
// Findings: where the checks tell what they found.
#pragma once

#include <string>

#include <moegen/cpu_target.hpp>

#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

class Findings {
 public:
  virtual ~Findings() = default;
  virtual void report(CpuReport report) = 0;
  /// Ends the launch.
  [[noreturn]] virtual void fail(CpuReport report) = 0;
  /// "create_indices.cu:214 in place_step".
  virtual std::string place(Site site) const = 0;
};

}  // namespace moegen::cpu
