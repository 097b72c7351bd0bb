// SPDX-License-Identifier: Apache-2.0
// Module: one cubin in the driver, for all contexts, and its preparation device by device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/family.hpp>
#include <moegen/plan.hpp>

#include "cuda/device.hpp"
#include "cuda/driver.hpp"

namespace moegen::cuda {

/// What goes into a Module, and how messages name it.
struct ModuleImage {
  std::string_view cubin;
  std::string_view compiler;  ///< "nvrtc-13.0"
  std::string label;          ///< "create_indices of 'deepseek_v3' for sm_90a"
};

/// A cubin loaded with cuLibraryLoadData. Its kernels belong to no context, so one Module serves every device of its
/// arch. Movable; unloads what it loaded.
class Module {
 public:
  /// Loads the cubin and finds the entry points of `plan` in it.
  /// Throws: unsupported if the driver is too old for the cubin; internal if an entry point is missing or does not take
  /// one argument struct of Plan::args_bytes; driver for everything else.
  static Module load(const ModuleImage& image, const Plan& plan);

  /// Makes every entry point ready on `device`, whose context must be current: shared memory and cluster attributes
  /// set, code loaded (so that a first launch may be captured into a graph).
  /// Returns what launches need to know about the device.
  LaunchDevice prepare(const DeviceInfo& device) const;

  /// One for each of Plan::entries.
  const std::vector<KernelHandle>& kernels() const noexcept { return kernels_; }

 private:
  Module(std::string label, std::vector<EntryPlan> entries, LibraryHandle library)
      : label_(std::move(label)), entries_(std::move(entries)), library_(library) {}
  void find_kernels(std::int64_t args_bytes);
  void set_attributes(const DeviceInfo& device, std::size_t index) const;
  FunctionHandle load_function(std::size_t index) const;
  std::uint32_t largest_cluster(const DeviceInfo& device, std::size_t index, FunctionHandle function) const;
  std::string object(std::size_t index) const;

  std::string label_;
  std::vector<EntryPlan> entries_;
  Owner<LibraryHandle, &Driver::library_unload> library_;
  std::vector<KernelHandle> kernels_;
};

}  // namespace moegen::cuda
