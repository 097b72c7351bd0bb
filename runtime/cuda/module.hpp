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

/// One cubin that goes into a Module.
struct Image {
  std::string_view cubin;
  std::string_view compiler;  ///< "nvrtc-13.0"
};

/// The cubins of one kernel, loaded with cuLibraryLoadData. Their kernels belong to no context, so one Module serves
/// every device of its arch. Movable; unloads what it loaded.
class Module {
 public:
  /// Loads `images` and finds the entry points of `plan` in them, each in the first that has it. Messages begin with
  /// `label` ("create_indices of 'deepseek_v3' for sm_90a").
  /// Throws: unsupported if the driver is too old for the cubin; internal if an entry point is missing or does not take
  /// one argument struct of Plan::args_bytes; driver for everything else.
  static Module load(const std::vector<Image>& images, std::string label, const Plan& plan);

  /// Makes every entry point ready on `device`, whose context must be current: shared memory and cluster attributes
  /// set, code loaded (so that a first launch may be captured into a graph).
  /// Returns what launches need to know about the device.
  LaunchDevice prepare(const DeviceInfo& device) const;

  /// One for each of Plan::entries.
  const std::vector<KernelHandle>& kernels() const noexcept { return kernels_; }

 private:
  using Library = Owner<LibraryHandle, &Driver::library_unload>;

  Module(std::string label, std::vector<EntryPlan> entries) : label_(std::move(label)), entries_(std::move(entries)) {}
  KernelHandle find_kernel(std::size_t index) const;
  void find_kernels(std::int64_t args_bytes);
  void set_attributes(const DeviceInfo& device, std::size_t index) const;
  FunctionHandle load_function(std::size_t index) const;
  std::uint32_t largest_cluster(const DeviceInfo& device, std::size_t index, FunctionHandle function) const;
  std::string object(std::size_t index) const;

  std::string label_;
  std::vector<EntryPlan> entries_;
  std::vector<Library> libraries_;
  std::vector<KernelHandle> kernels_;
};

}  // namespace moegen::cuda
