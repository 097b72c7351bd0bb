// SPDX-License-Identifier: Apache-2.0
// Workload: the inputs of one kernel at one size, ready to launch over rotating sets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "bench/host_cost.hpp"
#include "cuda/device.hpp"

namespace moegen::bench {

/// Owns device memory; `launch(set, stream)` runs the kernel on input set `set`.
struct Workload {
  std::size_t sets = 1;
  std::int64_t bytes = 0;  ///< bytes that one launch must move: each input read once, each output written once
  double flops = 0;        ///< floating-point operations of the tensor cores; 0 for memory-bound kernels
  std::function<void(std::size_t set, const cuda::Stream& stream)> launch;
  std::function<HostCost(const cuda::Stream& stream)> host_cost;  ///< of a launch on set 0
  std::shared_ptr<void> memory;
};

/// Sets `launch` and `host_cost`: `args_of(set)` gives the argument struct of an input set.
template <class ArgsOf>
void bind(Workload& workload, const Kernel& kernel, const ArgsOf& args_of) {
  workload.launch = [kernel, args_of](std::size_t set, const cuda::Stream& stream) {
    kernel.run(args_of(set), stream.get());
  };
  workload.host_cost = [kernel, args_of](const cuda::Stream& stream) {
    const auto args = args_of(0);
    return host_cost(kernel, &args, sizeof(args), stream);
  };
}

Workload router_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed);
Workload activation_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed);
Workload permute_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed);
Workload quantize_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed);
Workload indices_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed);
Workload matmul_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed);
Workload finalize_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed);

}  // namespace moegen::bench
