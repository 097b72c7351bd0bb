// SPDX-License-Identifier: Apache-2.0
// layer: the kernels of a config one after another, each on what the one before it wrote, each checked and timed, and
// their result beside the layer in float64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/engine.hpp>

namespace moegen::verify {

struct LayerOptions {
  std::int64_t num_tokens = 16;
  std::uint64_t seed = 1;
  std::vector<CpuOptions> schedules;  ///< CPU target: each kernel is run under all of them; empty: the engine's own
  /// For tests of the check itself: changes the layer's output, [T, D] finalize.output, before it is compared.
  std::function<void(std::vector<char>& output)> alter_output;
};

struct LayerRow {
  std::string kernel;
  double us = 0;        ///< of one launch: on a GPU after a first one, on the CPU target the first, by the wall clock
  std::string checked;  ///< what was compared, "128 rows exactly"
  std::string wrong;    ///< "" or one line
  std::string details;  ///< several lines, where there is more to say
};

struct LayerReport {
  std::string device;
  std::int64_t num_tokens = 0;
  std::vector<std::string> scaled;  ///< what was cut of the config to run on the CPU target
  std::vector<LayerRow> rows;
  bool failed() const;
};

/// Runs the layer on the engine's target: router, create_indices, permute, the up projection, activation, the down
/// projection and finalize, with `quantize` where no other kernel quantises, each on what the one before it left there.
/// Logits, tokens and weights are random. Each output is compared with its kernel's reference on the very inputs that
/// the kernel read, and the layer's with the whole layer in float64 (row "layer", us: the sum). Ends at the first that
/// is wrong. Throws: unsupported where there is no device or no CPU target; else as Engine::get.
LayerReport run_layer(Engine& engine, const Config& config, const LayerOptions& options);

}  // namespace moegen::verify
