// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <algorithm>

#include <moegen/error.hpp>

#include "bench/replay_timer.hpp"
#include "bench/workload.hpp"
#include "cuda/device.hpp"

namespace moegen::bench {
namespace {

Workload make_workload(const Kernel& kernel, const Config& config, const std::string& name, std::int64_t num_tokens,
                       std::uint64_t seed) {
  if (name == "router") return router_workload(kernel, config, num_tokens, seed);
  if (name == "create_indices") return indices_workload(kernel, config, num_tokens, seed);
  if (name == "permute") return permute_workload(kernel, config, num_tokens, seed);
  if (name == "activation") return activation_workload(kernel, config, num_tokens, seed);
  if (name.starts_with("quantize.")) return quantize_workload(kernel, config, num_tokens, seed);
  if (name.starts_with("grouped_matmul.")) return matmul_workload(kernel, config, num_tokens, seed);
  if (name == "finalize") return finalize_workload(kernel, config, num_tokens, seed);
  throw Error(ErrorCode::internal, "bench has no workload for kernel '" + name + "'");
}

Row measure(const Workload& workload, const cuda::Stream& stream, double copy_gbps) {
  Row row;
  row.us = time_us(stream, workload.sets, workload.launch);
  row.gbps = static_cast<double>(workload.bytes) / row.us / 1e3;
  row.tflops = workload.flops / row.us / 1e6;
  row.roof_share = row.gbps / copy_gbps;
  const HostCost cost = workload.host_cost(stream);
  row.run_host_ns = cost.run_ns;
  row.bare_host_ns = cost.bare_ns;
  return row;
}

void check_sizes(const Config& config, const std::vector<std::int64_t>& num_tokens) {
  for (std::int64_t tokens : num_tokens)
    if (tokens < 1 || tokens > (std::int64_t{1} << 24))
      throw Error(ErrorCode::config, config.origin() + ": num_tokens " + std::to_string(tokens) +
                                         " cannot be timed; allowed 1 .. 16777216");
}

}  // namespace

Report bench(Engine& engine, const Config& config, const Options& options) {
  if (cuda::num_devices() == 0)
    throw Error(ErrorCode::unsupported,
                "bench needs a CUDA device and found none; 'moegen doctor' says what is missing");
  const std::vector<std::int64_t>& sizes = options.num_tokens.empty() ? config->tune.num_tokens : options.num_tokens;
  check_sizes(config, sizes);
  const cuda::PrimaryContext context;
  const cuda::Stream stream;
  Report report;
  report.device = cuda::device_info(context.ordinal()).name;
  report.copy_gbps = copy_gbps(stream);
  for (const std::string& name : options.kernels.empty() ? available_kernels_of(config) : options.kernels) {
    const Kernel kernel = engine.get(config, name);
    for (std::int64_t num_tokens : sizes) {
      if (options.progress) options.progress(name, num_tokens);
      const Workload workload = make_workload(kernel, config, name, num_tokens, options.seed);
      Row row = measure(workload, stream, report.copy_gbps);
      row.kernel = name;
      row.num_tokens = num_tokens;
      report.rows.push_back(row);
    }
  }
  return report;
}

}  // namespace moegen::bench
