// SPDX-License-Identifier: Apache-2.0
#include "cpu/launcher/loaded_kernel.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "cpu/buffers.hpp"
#include "cpu/target.hpp"
#include "tensor_map.hpp"

namespace moegen::cpu {
namespace {

/// Blocks of the cooperative entries of `plan` that can be resident together.
int resident_blocks(const Plan& plan, int num_sms) {
  for (const EntryPlan& entry : plan.entries)
    if (entry.cooperative) num_sms = std::min(num_sms, kMostResidentThreads / entry.threads);
  return num_sms;
}

/// What the modelled GPU has for `plan`: a cluster cannot be larger than what is resident together.
LaunchDevice modelled_device(const Plan& plan, const CpuOptions& options) {
  const auto resident = std::bit_floor(static_cast<std::uint32_t>(options.num_sms));
  const auto largest = static_cast<std::uint32_t>(plan.arch.max_cluster);
  return {.num_sms = resident_blocks(plan, options.num_sms),
          .max_cluster = plan.arch.clusters ? std::min(resident, largest) : 1};
}

CpuOptions rescheduled(CpuOptions options, const CpuOptions& schedule) {
  options.schedule = schedule.schedule;
  options.async_timing = schedule.async_timing;
  options.seed = schedule.seed;
  return options;
}

}  // namespace

LoadedKernel::LoadedKernel(Plan made_plan, const Family& made_family, std::string made_label, const Target& target,
                           std::shared_ptr<const Program> program, const CpuOptions& options)
    : State(std::move(made_plan), made_family, std::move(made_label)),
      target_(target),
      program_(std::move(program)),
      options_(options),
      device_(modelled_device(plan, options)) {}

LoadedKernel::LoadedKernel(const LoadedKernel& other, const CpuOptions& schedule)
    : State(other.plan, other.family, other.label),
      target_(other.target_),
      program_(other.program_),
      options_(rescheduled(other.options_, schedule)),
      device_(other.device_) {}

void LoadedKernel::launch(const Launch& what, const void* args, CUstream_st*) const {
  const EntryPlan& entry = plan.entries[static_cast<std::size_t>(what.entry)];
  void* parameters[] = {const_cast<void*>(args)};
  LaunchRequest request;
  request.program = program_.get();
  request.entry = entry.name;
  request.label = label;
  request.arch = plan.arch;
  request.num_sms = options_.num_sms;
  request.grid[0] = what.grid;
  request.block[0] = static_cast<std::uint32_t>(entry.threads);
  request.cluster = what.cluster;
  request.dynamic_shared_bytes = static_cast<std::uint32_t>(entry.dynamic_shared_bytes);
  request.max_threads = entry.threads;
  request.cooperative = entry.cooperative;
  request.parameters = parameters;
  request.options = options_;
  request.buffers = &Buffers::process();
  LaunchOutcome outcome = target_.launch(request);
  if (!outcome.reports.empty()) throw KernelError(label, std::move(outcome.reports));
}

void LoadedKernel::encode(const BoxMap& box, TensorMap& map) const {
  const auto listed = [&](const auto& values, std::uint32_t count) { return std::vector(values, values + count); };
  map = encode_for_cpu({.element = box.element_bytes == 1 ? TensorElement::uint8 : TensorElement::uint16,
                        .base = box.base,
                        .dims = listed(box.dims, box.rank),
                        .strides = listed(box.strides, box.rank - 1),
                        .box = listed(box.box, box.rank),
                        .swizzle = TensorSwizzle::span_128,
                        .name = label});
}

}  // namespace moegen::cpu

namespace moegen {

Kernel with_schedule(const Kernel& kernel, const CpuOptions& options) {
  if (kernel.target() != Target::cpu)
    throw Error(ErrorCode::config, fmt::format("{}: a kernel of the cuda target has no schedule to set; allowed those "
                                               "of the cpu target",
                                               kernel.state().label));
  const auto& loaded = static_cast<const cpu::LoadedKernel&>(kernel.state());
  return Kernel(std::make_shared<const cpu::LoadedKernel>(loaded, options));
}

}  // namespace moegen
