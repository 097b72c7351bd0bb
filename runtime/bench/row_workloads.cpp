// SPDX-License-Identifier: Apache-2.0
// Workloads of permute, activation and quantize: kernels that read rows and write rows.
#include <vector>

#include <moegen/args/activation.h>
#include <moegen/args/permute.h>
#include <moegen/args/quantize.h>
#include <moegen/shapes.hpp>

#include "bench/random_data.hpp"
#include "bench/replay_timer.hpp"
#include "bench/workload.hpp"
#include "verify/tensor.hpp"

namespace moegen::bench {
namespace {

using verify::bytes_of;

struct Set {
  cuda::DeviceBuffer input, rows, scales, restore;
};

// What every set may share: small beside the rows, or read alike.
struct Memory {
  std::vector<Set> sets;
  cuda::DeviceBuffer global_scale, weights, order, starts, experts, limits;
  std::vector<cuda::DeviceBuffer> named;
};

// Sizes of what a launch reads and writes.
struct Sizes {
  std::int64_t read_rows = 0, read_width = 0, rows = 0, width = 0, pairs = 0;
};

std::int64_t stored_bits(const Plan& plan, const ConfigFields& fields) {
  if (!plan.boolean("quantised")) return bits(fields.dtypes.activation);
  return 128 / plan.integer("vector");
}

// At most one float32 for each 16 elements.
std::size_t scale_bytes(const Sizes& sizes) {
  return static_cast<std::size_t>((sizes.rows + 16) * (sizes.width / 16 + 1) * 4);
}

std::int64_t scales_moved(const Plan& plan, const ConfigFields& fields, const Sizes& sizes) {
  const std::string& scheme = plan.text("scheme_kind");
  const std::int64_t bytes = bits(fields.quantization.scale) / 8;
  if (scheme == "rowwise") return 4 * sizes.rows;
  if (scheme == "block128") return bytes * sizes.rows * ((sizes.width + 127) / 128);
  if (scheme == "mxfp8" || scheme == "mxfp4") return sizes.rows * ((sizes.width + 31) / 32);
  return scheme == "nvfp4" ? sizes.rows * sizes.width / 16 : 0;
}

std::shared_ptr<Memory> make_memory(const Kernel& kernel, const ConfigFields& fields, const Sizes& sizes,
                                    std::uint64_t seed, Workload& workload) {
  const auto memory = std::make_shared<Memory>();
  const std::size_t read = bytes_of(fields.dtypes.activation, sizes.read_rows * sizes.read_width);
  const auto written = static_cast<std::size_t>(sizes.rows * sizes.width * stored_bits(kernel.plan(), fields) / 8);
  workload.bytes =
      static_cast<std::int64_t>(read + written) + scales_moved(kernel.plan(), fields, sizes) + 4 * sizes.pairs;
  workload.sets = num_sets(static_cast<std::size_t>(workload.bytes));
  for (std::size_t i = 0; i < workload.sets; ++i) {
    Set set;
    set.input = random_floats(read, seed + i);
    set.rows = cuda::DeviceBuffer(written);
    set.scales = cuda::DeviceBuffer(scale_bytes(sizes));
    set.restore = random_permutation(sizes.pairs, seed + 100 + i);
    memory->sets.push_back(std::move(set));
  }
  memory->global_scale = cuda::DeviceBuffer::of(std::vector<float>{0.01f});
  workload.memory = memory;
  return memory;
}

void* scales_of(const Kernel& kernel, const Set& set) {
  const std::string& scheme = kernel.plan().text("scheme_kind");
  return scheme == "none" || scheme == "tensor" ? nullptr : set.scales.data();
}

const float* global_of(const Kernel& kernel, const Memory& memory) {
  const std::string& scheme = kernel.plan().text("scheme_kind");
  return scheme == "tensor" || scheme == "nvfp4" ? memory.global_scale.data<float>() : nullptr;
}

std::int64_t named_count(const ConfigFields& fields, const ExpressionInput& input, std::int64_t rows) {
  const std::int64_t lines = input.shape.starts_with("rows") ? rows : num_groups(fields);
  return lines * fields.intermediate;
}

// Rows dealt evenly to all groups.
void make_groups(const ConfigFields& fields, std::int64_t rows, Memory& memory) {
  const int groups = num_groups(fields);
  std::vector<std::uint32_t> starts;
  std::vector<std::int32_t> experts;
  for (int group = 0; group <= groups; ++group) starts.push_back(static_cast<std::uint32_t>(rows * group / groups));
  for (int group = 0; group < groups; ++group) experts.push_back(group);
  memory.starts = cuda::DeviceBuffer::of(starts);
  memory.experts = cuda::DeviceBuffer::of(experts);
}

}  // namespace

Workload quantize_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed) {
  const ConfigFields& fields = config.fields();
  const std::int64_t width = kernel.plan().integer("width"), rows = num_tokens * fields.num_slots();
  Workload workload;
  const auto memory = make_memory(kernel, fields, {rows, width, rows, width, 0}, seed, workload);
  bind(workload, kernel, [kernel, rows, held = memory.get()](std::size_t index) {
    const Set& set = held->sets[index];
    quantize::Args args{};
    args.rows = set.rows.data();
    args.scales = scales_of(kernel, set);
    args.x = set.input.data();
    args.global_scale = global_of(kernel, *held);
    args.num_rows = rows;
    return args;
  });
  return workload;
}

Workload activation_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed) {
  const ConfigFields& fields = config.fields();
  const std::int64_t width = fields.intermediate, rows = num_tokens * fields.num_slots();
  Workload workload;
  const auto memory =
      make_memory(kernel, fields, {rows, width * (fields.activation.gated ? 2 : 1), rows, width, 0}, seed, workload);
  make_groups(fields, rows, *memory);
  memory->limits = random_floats(4 * static_cast<std::size_t>(num_groups(fields)), seed + 300);
  if (fields.experts.up_epilogue)
    for (const ExpressionInput& input : fields.experts.up_epilogue->inputs)
      memory->named.push_back(random_floats(bytes_of(input.dtype, named_count(fields, input, rows)), seed + 301));
  bind(workload, kernel, [kernel, rows, groups = num_groups(fields), held = memory.get()](std::size_t index) {
    const Set& set = held->sets[index];
    activation::Args args{};
    args.rows = set.rows.data();
    args.scales = scales_of(kernel, set);
    args.up = set.input.data();
    args.expert_start_indices = held->starts.data<std::uint32_t>();
    args.expert_ids = held->experts.data<std::int32_t>();
    args.limits = held->limits.data<float>();
    args.global_scale = global_of(kernel, *held);
    for (std::size_t i = 0; i < held->named.size(); ++i) args.inputs[i] = held->named[i].data();
    args.num_rows = rows;
    args.num_groups = groups;
    return args;
  });
  return workload;
}

Workload permute_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed) {
  const ConfigFields& fields = config.fields();
  const std::int64_t width = fields.expert_hidden, rows = num_tokens * fields.num_slots();
  Workload workload;
  const auto memory = make_memory(kernel, fields, {num_tokens, width, rows, width, rows}, seed, workload);
  make_groups(fields, rows, *memory);
  memory->weights = random_floats(bytes_of(fields.router.weights, rows), seed + 300);
  memory->order = random_permutation(rows, seed + 301);
  bind(workload, kernel, [kernel, num_tokens, rows, held = memory.get()](std::size_t index) {
    const Set& set = held->sets[index];
    permute::Args args{};
    args.rows = set.rows.data();
    args.scales = scales_of(kernel, set);
    args.x = set.input.data();
    args.restore = set.restore.data<std::uint32_t>();
    args.weights = held->weights.data();
    args.order = held->order.data<std::uint32_t>();
    args.expert_start_indices = held->starts.data<std::uint32_t>();
    args.global_scale = global_of(kernel, *held);
    args.num_tokens = num_tokens;
    args.num_rows = rows;
    return args;
  });
  return workload;
}

}  // namespace moegen::bench
