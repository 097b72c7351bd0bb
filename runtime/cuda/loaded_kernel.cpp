// SPDX-License-Identifier: Apache-2.0
#include "cuda/loaded_kernel.hpp"

#include <utility>

#include <fmt/core.h>

#include <moegen/error.hpp>

namespace moegen::cuda {
namespace {

/// The attributes of one launch, on the stack.
class LaunchAttributes {
 public:
  LaunchAttributes(const LaunchableEntry& entry, std::uint32_t cluster) noexcept {
    if (cluster > 1) add(LaunchAttributeId::cluster_dimension).cluster_dim = {cluster, 1, 1};
    if (entry.cooperative) add(LaunchAttributeId::cooperative).cooperative = 1;
    if (entry.dependent_launch)
      add(LaunchAttributeId::programmatic_stream_serialization).programmatic_stream_serialization_allowed = 1;
  }

  void put_into(LaunchConfig& config) noexcept {
    config.attributes = count_ ? values_ : nullptr;
    config.num_attributes = count_;
  }

 private:
  LaunchAttributeValue& add(LaunchAttributeId id) noexcept {
    values_[count_].id = id;
    return values_[count_++].value;
  }

  LaunchAttribute values_[3];
  unsigned int count_ = 0;
};

// The faults stand apart, so that the way of an ordinary launch stays short.

[[noreturn]] void refuse_device(const Kernel::State& state, int ordinal) {
  throw Error(ErrorCode::driver, fmt::format("{}: device {} is not prepared; call Engine::get once with that device "
                                             "current, before the first launch on it",
                                             state.label, ordinal));
}

[[noreturn]] void refuse_context(const Kernel::State& state, Result result) {
  if (result == kErrorInvalidContext)
    throw Error(ErrorCode::driver,
                fmt::format("{}: no CUDA context is current on this thread; make one current before a launch "
                            "(cudaSetDevice, cuCtxSetCurrent)",
                            state.label));
  throw_driver_error(result, "cuCtxGetDevice", state.label);
}

std::vector<LaunchableEntry> launchable(const Plan& plan, const Module& module) {
  std::vector<LaunchableEntry> entries;
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const EntryPlan& entry = plan.entries[i];
    entries.push_back({.function = reinterpret_cast<FunctionHandle>(module.kernels()[i]),
                       .threads = static_cast<unsigned int>(entry.threads),
                       .dynamic_shared_bytes = static_cast<unsigned int>(entry.dynamic_shared_bytes),
                       .cooperative = entry.cooperative,
                       .dependent_launch = entry.dependent_launch});
  }
  return entries;
}

}  // namespace

LoadedKernel::LoadedKernel(Plan made_plan, const Family& made_family, std::string made_label, Module loaded)
    : State(std::move(made_plan), made_family, std::move(made_label)),
      driver_(driver()),
      module_(std::move(loaded)),
      entries_(launchable(plan, module_)) {}

void LoadedKernel::prepare(const DeviceInfo& device) {
  if (device.ordinal >= kMaxDevices)
    throw Error(ErrorCode::unsupported, fmt::format("{}: {} is beyond the {} devices that one process can use", label,
                                                    device.label(), kMaxDevices));
  DeviceSlot& slot = devices_[static_cast<std::size_t>(device.ordinal)];
  if (slot.ready.load(std::memory_order_acquire)) return;
  slot.facts = module_.prepare(device);
  slot.ready.store(true, std::memory_order_release);
}

bool LoadedKernel::is_prepared(int ordinal) const noexcept {
  return ordinal >= 0 && ordinal < kMaxDevices &&
         devices_[static_cast<std::size_t>(ordinal)].ready.load(std::memory_order_acquire);
}

const LaunchDevice& LoadedKernel::current_device() const {
  DeviceHandle ordinal = 0;
  if (const Result result = driver_.context_get_device(&ordinal); result != kSuccess) [[unlikely]]
    refuse_context(*this, result);
  if (!is_prepared(ordinal)) [[unlikely]]
    refuse_device(*this, ordinal);
  return devices_[static_cast<std::size_t>(ordinal)].facts;
}

void LoadedKernel::launch(const Launch& what, const void* args, CUstream_st* stream) const {
  const LaunchableEntry& entry = entries_[static_cast<std::size_t>(what.entry)];
  LaunchAttributes attributes(entry, what.cluster);
  LaunchConfig config{};
  config.grid_dim_x = what.grid;
  config.grid_dim_y = config.grid_dim_z = 1;
  config.block_dim_x = entry.threads;
  config.block_dim_y = config.block_dim_z = 1;
  config.shared_mem_bytes = entry.dynamic_shared_bytes;
  config.stream = stream;
  attributes.put_into(config);
  void* parameters[] = {const_cast<void*>(args)};  // the driver copies what they point to before it returns
  check(driver_.launch_kernel_ex(&config, entry.function, parameters, nullptr), "cuLaunchKernelEx", label);
}

void LoadedKernel::encode(const BoxMap& box, TensorMap& map) const {
  constexpr unsigned int kElementStrides[] = {1, 1, 1, 1, 1};
  const TensorMapType type = box.element_bytes == 1 ? TensorMapType::uint8 : TensorMapType::uint16;
  check(driver_.tensor_map_encode_tiled(&map, type, box.rank, const_cast<void*>(box.base), box.dims, box.strides,
                                        box.box, kElementStrides, TensorMapInterleave::none, TensorMapSwizzle::span_128,
                                        TensorMapPromotion::l2_256, TensorMapFill::zero),
        "cuTensorMapEncodeTiled", label);
}

}  // namespace moegen::cuda
