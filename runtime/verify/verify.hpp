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
  /// Called before each case: kernel, a short name of the case, its number and the number of cases of the kernel.
  std::function<void(const std::string& kernel, const std::string& name, std::size_t index, std::size_t count)>
      progress;
};

struct KernelVerdict {
  std::string kernel;
  std::size_t cases = 0, failed = 0;
  std::string first_failure;  ///< "" or one line: case, output, index, got, want
};

struct Report {
  std::string device;
  std::size_t cases = 0, failed = 0;
  std::vector<KernelVerdict> kernels;
};

/// Verifies on the current CUDA device. Throws: unsupported where there is no driver or device; else as Engine::get.
Report verify(Engine& engine, const Config& config, const Options& options = {});

}  // namespace moegen::verify
