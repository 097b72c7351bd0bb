// SPDX-License-Identifier: Apache-2.0
// The launch path: from an argument struct to one cuLaunchKernelEx, with nothing but reads in between.
#include <moegen/kernel.hpp>

#include <utility>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "kernel_state.hpp"

namespace moegen {
namespace {

/// The attributes of one launch, on the stack.
class LaunchAttributes {
 public:
  LaunchAttributes(const LaunchableEntry& entry, std::uint32_t cluster) noexcept {
    if (cluster > 1) add(cuda::LaunchAttributeId::cluster_dimension).cluster_dim = {cluster, 1, 1};
    if (entry.cooperative) add(cuda::LaunchAttributeId::cooperative).cooperative = 1;
    if (entry.dependent_launch)
      add(cuda::LaunchAttributeId::programmatic_stream_serialization).programmatic_stream_serialization_allowed = 1;
  }

  void put_into(cuda::LaunchConfig& config) noexcept {
    config.attributes = count_ ? values_ : nullptr;
    config.num_attributes = count_;
  }

 private:
  cuda::LaunchAttributeValue& add(cuda::LaunchAttributeId id) noexcept {
    values_[count_].id = id;
    return values_[count_++].value;
  }

  cuda::LaunchAttribute values_[3];
  unsigned int count_ = 0;
};

// The faults stand apart, so that the way of an ordinary launch stays short.

[[noreturn]] void refuse_family(const Kernel::State& state, int tag) {
  throw Error(ErrorCode::config, fmt::format("{}: the arguments are of family {}; allowed those of '{}' ({})",
                                             state.label, tag, state.family.name, state.family.tag));
}

[[noreturn]] void refuse_size(const Kernel::State& state, std::size_t bytes) {
  throw Error(ErrorCode::config, fmt::format("{}: the argument struct has {} bytes; allowed {}", state.label, bytes,
                                             state.plan.args_bytes));
}

[[noreturn]] void refuse_null(const Kernel::State& state) {
  throw Error(ErrorCode::config, fmt::format("{}: the argument struct is null", state.label));
}

[[noreturn]] void refuse_argument(const Kernel::State& state, const char* fault) {
  throw Error(ErrorCode::config, fmt::format("{}: {}", state.label, fault));
}

[[noreturn]] void refuse_device(const Kernel::State& state, int ordinal) {
  throw Error(ErrorCode::driver, fmt::format("{}: device {} is not prepared; call Engine::get once with that device "
                                             "current, before the first launch on it",
                                             state.label, ordinal));
}

[[noreturn]] void refuse_context(const Kernel::State& state, cuda::Result result) {
  if (result == cuda::kErrorInvalidContext)
    throw Error(ErrorCode::driver,
                fmt::format("{}: no CUDA context is current on this thread; make one current before a launch "
                            "(cudaSetDevice, cuCtxSetCurrent)",
                            state.label));
  cuda::throw_driver_error(result, "cuCtxGetDevice", state.label);
}

void check_struct(const Kernel::State& state, const void* args, std::size_t bytes) {
  if (!args) [[unlikely]]
    refuse_null(state);
  if (bytes != static_cast<std::size_t>(state.plan.args_bytes)) [[unlikely]]
    refuse_size(state, bytes);
}

std::vector<LaunchableEntry> launchable(const Plan& plan, const cuda::Module& module) {
  std::vector<LaunchableEntry> entries;
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const EntryPlan& entry = plan.entries[i];
    entries.push_back({.function = reinterpret_cast<cuda::FunctionHandle>(module.kernels()[i]),
                       .threads = static_cast<unsigned int>(entry.threads),
                       .dynamic_shared_bytes = static_cast<unsigned int>(entry.dynamic_shared_bytes),
                       .cooperative = entry.cooperative,
                       .dependent_launch = entry.dependent_launch});
  }
  return entries;
}

}  // namespace

Kernel::State::State(Plan made_plan, const Family& made_family, std::string made_label, cuda::Module loaded)
    : plan(std::move(made_plan)),
      family(made_family),
      label(std::move(made_label)),
      constants(family.constants(plan)),
      driver(cuda::driver()),
      module(std::move(loaded)),
      entries(launchable(plan, module)) {}

void Kernel::State::prepare(const cuda::DeviceInfo& device) {
  if (device.ordinal >= kMaxDevices)
    throw Error(ErrorCode::unsupported, fmt::format("{}: {} is beyond the {} devices that one process can use", label,
                                                    device.label(), kMaxDevices));
  DeviceSlot& slot = devices[static_cast<std::size_t>(device.ordinal)];
  if (slot.ready.load(std::memory_order_acquire)) return;
  slot.facts = module.prepare(device);
  slot.ready.store(true, std::memory_order_release);
}

bool Kernel::State::is_prepared(int ordinal) const noexcept {
  return ordinal >= 0 && ordinal < kMaxDevices &&
         devices[static_cast<std::size_t>(ordinal)].ready.load(std::memory_order_acquire);
}

const LaunchDevice& Kernel::State::current_device() const {
  cuda::DeviceHandle ordinal = 0;
  if (const cuda::Result result = driver.context_get_device(&ordinal); result != cuda::kSuccess) [[unlikely]]
    refuse_context(*this, result);
  if (!is_prepared(ordinal)) [[unlikely]]
    refuse_device(*this, ordinal);
  return devices[static_cast<std::size_t>(ordinal)].facts;
}

void Kernel::State::launch(const Launch& what, const void* args, CUstream_st* stream) const {
  const LaunchableEntry& entry = entries[static_cast<std::size_t>(what.entry)];
  LaunchAttributes attributes(entry, what.cluster);
  cuda::LaunchConfig config{};
  config.grid_dim_x = what.grid;
  config.grid_dim_y = config.grid_dim_z = 1;
  config.block_dim_x = entry.threads;
  config.block_dim_y = config.block_dim_z = 1;
  config.shared_mem_bytes = entry.dynamic_shared_bytes;
  config.stream = stream;
  attributes.put_into(config);
  void* parameters[] = {const_cast<void*>(args)};  // the driver copies what they point to before it returns
  cuda::check(driver.launch_kernel_ex(&config, entry.function, parameters, nullptr), "cuLaunchKernelEx", label);
}

void Kernel::run(const void* args, std::size_t args_bytes, int family_tag, CUstream_st* stream) const {
  const State& state = *state_;
  if (family_tag != state.family.tag) [[unlikely]]
    refuse_family(state, family_tag);
  check_struct(state, args, args_bytes);
  const LaunchDevice& device = state.current_device();
  if (const char* fault = state.family.check(state.constants, device, args)) [[unlikely]]
    refuse_argument(state, fault);
  const Launch what = state.family.launch(state.constants, device, args);
  if (what.grid > 0) state.launch(what, args, stream);
}

std::size_t Kernel::workspace_bytes(const void* args, std::size_t args_bytes) const {
  const State& state = *state_;
  check_struct(state, args, args_bytes);
  if (!state.family.workspace_bytes) return 0;
  return static_cast<std::size_t>(state.family.workspace_bytes(state.constants, state.current_device(), args));
}

const Plan& Kernel::plan() const noexcept { return state_->plan; }

}  // namespace moegen
