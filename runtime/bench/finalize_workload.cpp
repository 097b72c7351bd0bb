// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <moegen/args/finalize.h>
#include <moegen/shapes.hpp>

#include "bench/random_data.hpp"
#include "bench/replay_timer.hpp"
#include "bench/workload.hpp"
#include "verify/tensor.hpp"

namespace moegen::bench {
namespace {

using verify::bytes_of;

struct Set {
  cuda::DeviceBuffer output, down, restore, weights;
};

// What every set may share: read or written in the same way, and small beside the rows.
struct Memory {
  std::vector<Set> sets;
  cuda::DeviceBuffer x, ids, residual, shared, gate, bias;
  std::vector<cuda::DeviceBuffer> named;
};

std::int64_t bytes_moved(const ConfigFields& fields, std::int64_t tokens) {
  const std::int64_t width = fields.expert_hidden, pairs = tokens * fields.num_slots();
  const auto tensor = [](Dtype dtype, std::int64_t count) { return count * bits(dtype) / 8; };
  std::int64_t bytes = tensor(fields.finalize.down, pairs * width) + tensor(fields.finalize.output, tokens * width);
  bytes += pairs * 4 + tensor(fields.router.weights, pairs);
  if (fields.finalize.residual) bytes += tensor(fields.dtypes.activation, tokens * width);
  if (fields.finalize.shared) bytes += tensor(fields.finalize.down, tokens * width);
  return bytes;
}

void make_sets(const ConfigFields& fields, std::int64_t tokens, std::size_t count, std::uint64_t seed, Memory& memory) {
  const std::int64_t width = fields.expert_hidden, pairs = tokens * fields.num_slots();
  for (std::size_t i = 0; i < count; ++i) {
    Set set;
    set.output = cuda::DeviceBuffer(bytes_of(fields.finalize.output, tokens * width));
    set.down = random_floats(bytes_of(fields.finalize.down, pairs * width), seed + i);
    set.restore = random_permutation(pairs, seed + 100 + i);
    set.weights = random_floats(bytes_of(fields.router.weights, pairs), seed + 200 + i);
    memory.sets.push_back(std::move(set));
  }
}

void make_options(const ConfigFields& fields, std::int64_t tokens, std::uint64_t seed, Memory& memory) {
  const std::int64_t cells = tokens * fields.expert_hidden;
  memory.x = random_floats(bytes_of(fields.dtypes.activation, cells), seed + 1);
  memory.ids = cuda::DeviceBuffer(bytes_of(fields.indices.ids, tokens * fields.num_slots()));
  if (memory.ids.size() > 0) memory.ids.fill(0);
  memory.residual = random_floats(bytes_of(fields.dtypes.activation, cells), seed + 2);
  memory.shared = random_floats(bytes_of(fields.finalize.down, cells), seed + 3);
  memory.gate = random_floats(4 * static_cast<std::size_t>(tokens), seed + 4);
  memory.bias = random_floats(bytes_of(fields.finalize.down, num_groups(fields) * fields.expert_hidden), seed + 5);
  if (fields.finalize.epilogue)
    for (const ExpressionInput& input : fields.finalize.epilogue->inputs)
      memory.named.push_back(random_floats(bytes_of(input.dtype, cells), seed + 6));
}

}  // namespace

Workload finalize_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed) {
  const ConfigFields& fields = config.fields();
  const auto memory = std::make_shared<Memory>();
  Workload workload;
  workload.bytes = bytes_moved(fields, num_tokens);
  workload.sets = num_sets(static_cast<std::size_t>(workload.bytes));
  make_sets(fields, num_tokens, workload.sets, seed, *memory);
  make_options(fields, num_tokens, seed, *memory);
  finalize::Args args{};
  args.x = memory->x.data();
  args.topk_ids = memory->ids.data();
  args.residual = memory->residual.data();
  args.shared = memory->shared.data();
  args.shared_gate = memory->gate.data<float>();
  args.bias = memory->bias.data();
  for (std::size_t i = 0; i < memory->named.size(); ++i) args.inputs[i] = memory->named[i].data();
  args.num_tokens = num_tokens;
  workload.memory = memory;
  const auto args_of = [args, held = memory.get()](std::size_t set) {
    finalize::Args own = args;
    own.output = held->sets[set].output.data();
    own.down = held->sets[set].down.data();
    own.restore = held->sets[set].restore.data<std::uint32_t>();
    own.weights = held->sets[set].weights.data();
    return own;
  };
  bind(workload, kernel, args_of);
  return workload;
}

}  // namespace moegen::bench
