// SPDX-License-Identifier: Apache-2.0
#include "cuda/module.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

#include <fmt/core.h>

#include <moegen/error.hpp>

namespace moegen::cuda {
namespace {

constexpr int kPortableCluster = 8;  // larger ones need leave, see "Thread Block Clusters" in CUDA's guide

/// 13000 for "nvrtc-13.0"; 0 for anything else.
int compiler_version(std::string_view compiler) {
  constexpr std::string_view kPrefix = "nvrtc-";
  if (!compiler.starts_with(kPrefix)) return 0;
  int major = 0, minor = 0;
  const char* end = compiler.data() + compiler.size();
  const auto first = std::from_chars(compiler.data() + kPrefix.size(), end, major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return 0;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc{}) return 0;
  return major * 1000 + minor * 10;
}

bool is_refusal_of_the_image(Result result) {
  return result == kErrorInvalidImage || result == kErrorNoBinaryForGpu || result == kErrorInvalidPtx ||
         result == kErrorUnsupportedPtxVersion || result == kErrorInvalidSource;
}

/// A driver refuses cubins of a later toolkit with one of several words that do not say so.
void refuse_old_driver(Result result, const Image& image, const std::string& label) {
  const int compiled_by = compiler_version(image.compiler);
  if (!is_refusal_of_the_image(result) || driver().version >= compiled_by) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: the driver supports CUDA {} and refuses a cubin of {} with {}; update the driver to one "
                          "for CUDA {}, or build with an NVRTC of CUDA {}",
                          label, version_text(driver().version), image.compiler, result_text(driver(), result),
                          version_text(compiled_by), version_text(driver().version)));
}

LibraryHandle load_library(const Image& image, const std::string& label) {
  LibraryHandle library = nullptr;
  const Result result =
      driver().library_load_data(&library, image.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  refuse_old_driver(result, image, label);
  check(result, "cuLibraryLoadData", label);
  return library;
}

/// The kernels take one struct by value; a cubin that takes anything else was made for another launcher.
void check_parameters(KernelHandle kernel, std::int64_t args_bytes, const std::string& object) {
  const auto param_info = driver().kernel_get_param_info;
  if (!param_info) return;  // drivers before CUDA 12.4 cannot tell
  std::size_t offset = 0, bytes = 0;
  check(param_info(kernel, 0, &offset, &bytes), "cuKernelGetParamInfo", object);
  if (bytes != static_cast<std::size_t>(args_bytes))
    throw Error(ErrorCode::internal, fmt::format("{}: the cubin takes an argument of {} bytes, the launcher passes {}",
                                                 object, bytes, args_bytes));
  std::size_t second_bytes = 0;
  if (param_info(kernel, 1, &offset, &second_bytes) == kSuccess)
    throw Error(ErrorCode::internal, fmt::format("{}: the cubin takes more than one argument", object));
}

bool fits(const EntryPlan& entry, std::uint32_t cluster, FunctionHandle function, const std::string& object) {
  LaunchAttribute attribute{};
  attribute.id = LaunchAttributeId::cluster_dimension;
  attribute.value.cluster_dim = {cluster, 1, 1};
  LaunchConfig config{};
  config.grid_dim_x = cluster;
  config.grid_dim_y = config.grid_dim_z = 1;
  config.block_dim_x = static_cast<unsigned int>(entry.threads);
  config.block_dim_y = config.block_dim_z = 1;
  config.shared_mem_bytes = static_cast<unsigned int>(entry.dynamic_shared_bytes);
  config.attributes = &attribute;
  config.num_attributes = 1;
  int clusters = 0;
  const Result result = driver().occupancy_max_active_clusters(&clusters, function, &config);
  if (result == kErrorInvalidClusterSize) return false;
  check(result, "cuOccupancyMaxActiveClusters", object);
  return clusters > 0;
}

}  // namespace

Module Module::load(const std::vector<Image>& images, std::string label, const Plan& plan) {
  Module module(std::move(label), plan.entries);
  for (const Image& image : images) module.libraries_.emplace_back(load_library(image, module.label_));
  module.find_kernels(plan.parameter_bytes != 0 ? plan.parameter_bytes : plan.args_bytes);
  return module;
}

std::string Module::object(std::size_t index) const {
  return fmt::format("{}: entry point '{}'", label_, entries_[index].name);
}

KernelHandle Module::find_kernel(std::size_t index) const {
  for (const Library& library : libraries_) {
    KernelHandle kernel = nullptr;
    const Result result = driver().library_get_kernel(&kernel, library.get(), entries_[index].name.c_str());
    if (result == kErrorNotFound) continue;
    check(result, "cuLibraryGetKernel", object(index));
    return kernel;
  }
  throw Error(ErrorCode::internal, fmt::format("{} is not in the cubin", object(index)));
}

void Module::find_kernels(std::int64_t args_bytes) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const KernelHandle kernel = find_kernel(i);
    check_parameters(kernel, args_bytes, object(i));
    kernels_.push_back(kernel);
  }
}

void Module::set_attributes(const DeviceInfo& device, std::size_t index) const {
  const EntryPlan& entry = entries_[index];
  const auto set = [&](FunctionAttribute attribute, int value) {
    check(driver().kernel_set_attribute(attribute, value, kernels_[index], device.ordinal), "cuKernelSetAttribute",
          fmt::format("{} on {}", object(index), device.label()));
  };
  // Static and dynamic shared memory together may pass 48 KiB only with leave, so any dynamic part asks for it.
  if (entry.dynamic_shared_bytes > 0) set(FunctionAttribute::max_dynamic_shared_size_bytes, entry.dynamic_shared_bytes);
  if (entry.cluster > kPortableCluster) set(FunctionAttribute::non_portable_cluster_size_allowed, 1);
}

FunctionHandle Module::load_function(std::size_t index) const {
  FunctionHandle function = nullptr;
  check(driver().kernel_get_function(&function, kernels_[index]), "cuKernelGetFunction", object(index));
  if (driver().func_load) check(driver().func_load(function), "cuFuncLoad", object(index));
  return function;
}

std::uint32_t Module::largest_cluster(const DeviceInfo& device, std::size_t index, FunctionHandle function) const {
  const EntryPlan& entry = entries_[index];
  if (!device.clusters) return 1;
  const std::string what = fmt::format("{} on {}", object(index), device.label());
  std::uint32_t cluster = std::bit_floor(static_cast<std::uint32_t>(entry.cluster));
  while (cluster > 1 && !fits(entry, cluster, function, what)) cluster /= 2;
  return cluster;
}

LaunchDevice Module::prepare(const DeviceInfo& device) const {
  LaunchDevice facts;
  facts.num_sms = device.num_sms;
  bool has_cluster_entry = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    set_attributes(device, i);
    const FunctionHandle function = load_function(i);
    if (entries_[i].cluster <= 1) continue;
    const std::uint32_t largest = largest_cluster(device, i, function);
    facts.max_cluster = has_cluster_entry ? std::min(facts.max_cluster, largest) : largest;
    has_cluster_entry = true;
  }
  return facts;
}

}  // namespace moegen::cuda
