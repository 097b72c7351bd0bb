// SPDX-License-Identifier: Apache-2.0
// Kernel::State: everything that a launch reads, laid out by Engine so that a launch only reads.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include <moegen/family.hpp>
#include <moegen/kernel.hpp>
#include <moegen/plan.hpp>

#include "cuda/driver.hpp"
#include "cuda/module.hpp"

namespace moegen {

/// Ordinals that one process can use. A fixed table, so that a launch finds its device without a lock.
inline constexpr int kMaxDevices = 64;

/// One entry point as cuLaunchKernelEx wants it.
struct LaunchableEntry {
  cuda::FunctionHandle function = nullptr;  ///< the CUkernel, which the driver takes in place of a CUfunction
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

struct Kernel::State {
  State(Plan made_plan, const Family& made_family, std::string made_label, cuda::Module loaded);

  /// Prepares `device`, whose context is current. Not thread-safe: Engine calls it under its load lock.
  void prepare(const cuda::DeviceInfo& device);
  bool is_prepared(int ordinal) const noexcept;
  /// Facts of the calling thread's current device. Throws: driver where there is none or it was never prepared.
  const LaunchDevice& current_device() const;
  /// Launches on `stream`; `args` was checked. Throws: driver.
  void launch(const Launch& what, const void* args, CUstream_st* stream) const;

  const Plan plan;
  const Family& family;
  const std::string label;  ///< "create_indices of 'deepseek_v3' for sm_90a"
  const LaunchConstants constants;
  const cuda::Driver& driver;
  const cuda::Module module;
  std::vector<LaunchableEntry> entries;
  std::array<DeviceSlot, kMaxDevices> devices;
};

}  // namespace moegen
