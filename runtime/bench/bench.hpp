// SPDX-License-Identifier: Apache-2.0
// bench: times kernels of a config by CUDA graph replay, beside the copy roof measured in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/engine.hpp>

namespace moegen::bench {

struct Options {
  std::vector<std::string> kernels;      ///< families or kernels; empty: all that this version has
  std::vector<std::int64_t> num_tokens;  ///< empty: tune.num_tokens of the config
  std::uint64_t seed = 1;
  std::function<void(const std::string& kernel, std::int64_t num_tokens)> progress;
};

struct Row {
  std::string kernel;
  std::int64_t num_tokens = 0;
  double us = 0;            ///< median of the replays
  double tflops = 0;        ///< 0 for memory-bound kernels
  double gbps = 0;          ///< bytes that must move, over the time
  double roof_share = 0;    ///< share of the roof that binds, 0..1
  double run_host_ns = 0;   ///< host time of one Kernel::run
  double bare_host_ns = 0;  ///< host time of one cuLaunchKernelEx with the same kernel and arguments
};

struct Report {
  std::string device;
  double copy_gbps = 0;  ///< device-to-device copy, bytes read plus written
  std::vector<Row> rows;
};

/// Measures on the current CUDA device. Throws: unsupported where there is no driver or device; else as Engine::get.
Report bench(Engine& engine, const Config& config, const Options& options = {});

}  // namespace moegen::bench
