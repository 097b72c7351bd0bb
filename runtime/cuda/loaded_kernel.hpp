// SPDX-License-Identifier: Apache-2.0
// cuda::LoadedKernel: a kernel in the driver, ready on the devices that Engine::get was called on.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "cuda/driver.hpp"
#include "cuda/module.hpp"
#include "kernel_state.hpp"

namespace moegen::cuda {

/// Ordinals that one process can use. A fixed table, so that a launch finds its device without a lock.
inline constexpr int kMaxDevices = 64;

/// One entry point as cuLaunchKernelEx wants it.
struct LaunchableEntry {
  FunctionHandle function = nullptr;  ///< the CUkernel, which the driver takes in place of a CUfunction
  unsigned int threads = 0;
  unsigned int dynamic_shared_bytes = 0;
  bool cooperative = false;
  bool dependent_launch = false;
};

/// What Engine::get found out about one device; read only after `ready` was seen.
struct DeviceSlot {
  std::atomic<bool> ready{false};
  LaunchDevice facts;
};

class LoadedKernel final : public Kernel::State {
 public:
  LoadedKernel(Plan made_plan, const Family& made_family, std::string made_label, Module loaded);

  /// Prepares `device`, whose context is current. Not thread-safe: the provider calls it under its load lock.
  void prepare(const DeviceInfo& device);
  bool is_prepared(int ordinal) const noexcept;

  Target target() const noexcept override { return Target::cuda; }
  const LaunchDevice& current_device() const override;
  void launch(const Launch& what, const void* args, CUstream_st* stream) const override;
  void encode(const BoxMap& box, TensorMap& map) const override;

  const Module& module() const noexcept { return module_; }

 private:
  const Driver& driver_;
  const Module module_;
  std::vector<LaunchableEntry> entries_;
  std::array<DeviceSlot, kMaxDevices> devices_;
};

}  // namespace moegen::cuda
