// SPDX-License-Identifier: Apache-2.0
// verify: runs kernels of a config on ordinary and hostile inputs and compares every element with an fp64 reference.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/engine.hpp>

namespace moegen::verify {

struct Options {
  std::vector<std::string> kernels;  ///< families or kernels; empty: all that this version has
  std::uint64_t seed = 1;
  bool quick = false;  ///< a smaller set, for compute-sanitizer and first runs
  /// CPU target: schedules that each case is run under; empty: the engine's own.
  std::vector<CpuOptions> schedules;
  double budget_s = 0;  ///< nothing begins after that many seconds, which kernels share; 0 = no limit
  /// Called before each case: kernel, a short name of the case, its number and the number of cases of the kernel.
  std::function<void(const std::string& kernel, const std::string& name, std::size_t index, std::size_t count)>
      progress;
};

struct KernelVerdict {
  std::string kernel;
  std::size_t cases = 0, failed = 0;
  std::size_t left_out = 0;   ///< cases that the budget did not reach
  std::string first_failure;  ///< "" or one line: case, output, index, got, want
  std::string details;        ///< of the first failure, several lines, where there is more to say
};

struct Report {
  std::string device;
  std::vector<std::string> scaled;  ///< what was cut of the config to run on the CPU target
  std::size_t cases = 0, failed = 0;
  std::vector<KernelVerdict> kernels;
};

/// Verifies on the engine's target: the current CUDA device, or the CPU target, there with narrower rows
/// (scaled_for_cpu) and at most kMostCpuTokens tokens.
/// Throws: unsupported where there is no driver or device, or no CPU target; else as Engine::get.
Report verify(Engine& engine, const Config& config, const Options& options = {});

}  // namespace moegen::verify
