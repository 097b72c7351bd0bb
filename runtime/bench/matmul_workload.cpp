// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include <moegen/args/grouped_matmul.h>
#include <moegen/shapes.hpp>

#include "bench/random_data.hpp"
#include "bench/workload.hpp"
#include "verify/grouped_matmul_problem.hpp"
#include "verify/random.hpp"
#include "verify/random_codes.hpp"
#include "verify/tensor.hpp"

namespace moegen::bench {
namespace {

using verify::bytes_of;

using reference::MatmulSpec;

// Weights that all sets together read at least: thirty times the 50 MB of an H200's L2, which keeps part of a tensor
// from one replay to the next.
constexpr std::int64_t kRotatedWeights = std::int64_t{1500} << 20;
constexpr std::int64_t kMostCopies = 16, kFewestSets = 4;

/// One routing of the tokens: groups as create_indices leaves them.
struct Set {
  cuda::DeviceBuffer a, c, c_scales, offsets, ids;
  std::int64_t active = 0;
};

struct Memory {
  std::vector<cuda::DeviceBuffer> weights;  // copies
  std::vector<Set> sets;
  cuda::DeviceBuffer a_scales, b_scales, bias, limits, order;
  std::vector<cuda::DeviceBuffer> named;
};

/// Random numbers of size 1, a block of 32 MiB again and again.
cuda::DeviceBuffer random_numbers(Dtype dtype, std::int64_t count, std::uint64_t seed) {
  const std::size_t bytes = bytes_of(dtype, count), element = static_cast<std::size_t>(bits(dtype)) / 8;
  std::vector<std::uint64_t> block = repeated_block(bytes);
  const verify::RandomCodes codes(dtype, 0);
  if (element == 1)
    codes.fill(reinterpret_cast<std::uint8_t*>(block.data()), 0, block.size() * 8, seed);
  else
    codes.fill(reinterpret_cast<std::uint16_t*>(block.data()), 0, block.size() * 4, seed);
  return repeat(block, bytes);
}

/// The same scale everywhere, such that sums stay of size 1.
cuda::DeviceBuffer scales(Dtype dtype, std::int64_t count, int exponent) {
  if (dtype == Dtype::float32)
    return cuda::DeviceBuffer::of(std::vector<float>(static_cast<std::size_t>(count), std::ldexp(1.0f, exponent)));
  return cuda::DeviceBuffer::of(
      std::vector<std::uint8_t>(static_cast<std::size_t>(count), static_cast<std::uint8_t>(127 + exponent)));
}

/// Pairs of each expert if every token draws different ones for its slots.
std::map<std::int32_t, std::uint32_t> draw(const ConfigFields& fields, std::int64_t tokens, std::uint64_t seed) {
  std::vector<std::int32_t> experts(static_cast<std::size_t>(num_groups(fields)));
  std::iota(experts.begin(), experts.end(), 0);
  const auto slots = std::min(static_cast<std::size_t>(fields.num_slots()), experts.size());
  std::map<std::int32_t, std::uint32_t> counts;
  for (std::size_t pair = 0; pair < static_cast<std::size_t>(tokens) * slots; ++pair) {
    const std::size_t slot = pair % slots;
    std::swap(experts[slot], experts[slot + verify::random_below(seed, pair, experts.size() - slot)]);
    ++counts[experts[slot]];
  }
  return counts;
}

/// Groups as create_indices leaves them.
Set route(const ConfigFields& fields, std::int64_t tokens, std::uint64_t seed) {
  const auto experts = static_cast<std::size_t>(num_groups(fields));
  const std::map<std::int32_t, std::uint32_t> counts = draw(fields, tokens, seed);
  std::vector<std::uint32_t> offsets = {0};
  std::vector<std::int32_t> ids;
  for (const auto& [expert, count] : counts) {
    offsets.push_back(offsets.back() + count);
    ids.push_back(expert);
  }
  Set set;
  set.active = std::ssize(ids);
  offsets.resize(experts + 1, offsets.back());
  ids.resize(experts, -1);
  set.offsets = cuda::DeviceBuffer::of(offsets);
  set.ids = cuda::DeviceBuffer::of(ids);
  return set;
}

std::int64_t blocks_of(std::int64_t count, std::int64_t width) { return (count + width - 1) / width; }

std::int64_t rows_of(const MatmulSpec& spec, std::int64_t tokens) { return tokens * spec.fields.num_slots(); }

void make_scales(const MatmulSpec& spec, std::int64_t rows, Memory& memory) {
  const Dtype dtype = spec.fields.quantization.scale;
  const std::int64_t blocks = spec.scales_of_row(), experts = num_groups(spec.fields);
  const int exponent = -static_cast<int>(std::log2(static_cast<double>(spec.depth)) / 2);
  const bool block128 = spec.scheme() == Scheme::block128;
  const std::int64_t padded = blocks_of(rows, 16) * 16;
  memory.a_scales = scales(dtype, padded * blocks, 0);
  memory.b_scales =
      scales(dtype, experts * (block128 ? blocks_of(spec.columns, 128) : spec.columns) * blocks, exponent);
}

void make_extras(const MatmulSpec& spec, std::int64_t tokens, std::uint64_t seed, Memory& memory) {
  const std::int64_t rows = rows_of(spec, tokens), experts = num_groups(spec.fields);
  if (spec.scheme() != Scheme::none) make_scales(spec, rows, memory);
  if (spec.fields.experts.bias) {
    memory.bias = cuda::DeviceBuffer(bytes_of(spec.fields.dtypes.activation, experts * spec.columns));
    memory.bias.fill(0);
  }
  memory.limits = scales(Dtype::float32, experts, 3);
  memory.order = random_permutation(rows, seed);
  if (!spec.epilogue()) return;
  for (std::size_t i = 0; i < spec.epilogue()->inputs.size(); ++i) {
    memory.named.emplace_back(4 * static_cast<std::size_t>(std::max(rows, experts) * spec.output_columns));
    memory.named.back().fill(0);
  }
}

void make_sets(const MatmulSpec& spec, std::int64_t tokens, std::uint64_t seed, Memory& memory) {
  const std::int64_t weights = num_groups(spec.fields) * spec.columns * spec.depth, rows = rows_of(spec, tokens);
  const auto bytes = static_cast<std::int64_t>(bytes_of(spec.input(), weights));
  const std::int64_t copies = std::clamp<std::int64_t>(blocks_of(kRotatedWeights, bytes), 1, kMostCopies);
  for (std::int64_t i = 0; i < copies; ++i)
    memory.weights.push_back(random_numbers(spec.input(), weights, seed + static_cast<std::uint64_t>(i)));
  for (std::int64_t i = 0; i < std::max(copies, kFewestSets); ++i) {
    Set set = route(spec.fields, tokens, seed + 100 + static_cast<std::uint64_t>(i));
    set.a = random_numbers(spec.input(), rows * spec.depth, seed + 200 + static_cast<std::uint64_t>(i));
    set.c = cuda::DeviceBuffer(bytes_of(spec.output, rows * spec.output_columns));
    if (spec.fuse_quantize)
      set.c_scales =
          cuda::DeviceBuffer(bytes_of(Dtype::float32, blocks_of(rows, 16) * 16 * blocks_of(spec.output_columns, 32)));
    memory.sets.push_back(std::move(set));
  }
}

// The mean over the sets: each weight of an active expert once, each row once.
std::int64_t bytes_moved(const MatmulSpec& spec, std::int64_t tokens, const Memory& memory) {
  std::int64_t active = 0;
  for (const Set& set : memory.sets) active += set.active;
  const std::int64_t rows = rows_of(spec, tokens), a_rows = spec.gather_a ? tokens : rows;
  const std::int64_t input = static_cast<std::int64_t>(bits(spec.input())) / 8;
  const std::int64_t weights = active * spec.columns * spec.depth * input / std::ssize(memory.sets);
  return weights + a_rows * spec.depth * input +
         static_cast<std::int64_t>(bytes_of(spec.output, rows * spec.output_columns));
}

}  // namespace

Workload matmul_workload(const Kernel& kernel, const Config& config, std::int64_t num_tokens, std::uint64_t seed) {
  const MatmulSpec spec = verify::matmul_spec(kernel, config);
  const auto memory = std::make_shared<Memory>();
  make_sets(spec, num_tokens, seed, *memory);
  make_extras(spec, num_tokens, seed, *memory);
  const std::int64_t rows = rows_of(spec, num_tokens);
  Workload workload;
  workload.sets = memory->sets.size();
  workload.bytes = bytes_moved(spec, num_tokens, *memory);
  workload.flops =
      2.0 * static_cast<double>(rows) * static_cast<double>(spec.columns) * static_cast<double>(spec.depth);
  grouped_matmul::Args args{};
  args.a_scales = memory->a_scales.data();
  args.b_scales = memory->b_scales.data();
  args.bias = memory->bias.data();
  args.limits = memory->limits.data<float>();
  args.order = memory->order.data<std::uint32_t>();
  for (std::size_t i = 0; i < memory->named.size(); ++i) args.inputs[i] = memory->named[i].data();
  args.num_rows = rows;
  args.num_groups = num_groups(spec.fields);
  args.a_scales_stride = args.c_scales_stride = blocks_of(rows, 16) * 16;
  args.max_num_tokens_per_expert = args.num_active_experts = -1;
  workload.memory = memory;
  bind(workload, kernel, [args, held = memory.get()](std::size_t set) {
    grouped_matmul::Args own = args;
    own.c = held->sets[set].c.data();
    own.c_scales = held->sets[set].c_scales.data();
    own.a = held->sets[set].a.data();
    own.b = held->weights[set % held->weights.size()].data();
    own.a_offsets = held->sets[set].offsets.data<std::uint32_t>();
    own.expert_ids = held->sets[set].ids.data<std::int32_t>();
    return own;
  });
  return workload;
}

}  // namespace moegen::bench
