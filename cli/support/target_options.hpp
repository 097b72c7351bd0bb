// SPDX-License-Identifier: Apache-2.0
// The options of commands that run kernels: --target, and how the CPU target runs them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/engine.hpp>

#include "support/options.hpp"

namespace moegen::cli {

class TargetOptions {
 public:
  void declare(Options& options);
  /// Puts what was asked for into `engine`. Throws: config where an option of the CPU target meets another target.
  void apply(const std::string& command, EngineOptions& engine) const;
  /// The schedules to run under: one, or one for each seed.
  std::vector<CpuOptions> schedules() const;
  bool on_cpu() const noexcept { return target_ == "cpu"; }

 private:
  void refuse_on_cuda(const std::string& command) const;
  CpuOptions cpu_options() const;

  std::string target_ = "cuda", schedule_, async_, arch_;
  std::optional<std::int64_t> seeds_, num_sms_;
  bool check_ = false;
};

}  // namespace moegen::cli
