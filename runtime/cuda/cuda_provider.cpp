// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_provider.hpp"

#include <ranges>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/arch.hpp>
#include <moegen/error.hpp>
#include <moegen/family.hpp>

namespace moegen::cuda {
namespace {

/// Archs whose cubins run on `device`, the best one first.
std::vector<const Arch*> archs_for(const DeviceInfo& device) {
  std::vector<const Arch*> archs;
  for (const Arch& arch : all_archs() | std::views::reverse)
    if (runs_on(arch, device.major, device.minor)) archs.push_back(&arch);
  if (!archs.empty()) return archs;
  std::vector<std::string_view> names;
  for (const Arch& arch : all_archs()) names.push_back(arch.name);
  throw Error(ErrorCode::unsupported, fmt::format("{}: moegen compiles for no arch that runs on it; it has {}",
                                                  device.label(), fmt::join(names, ", ")));
}

std::shared_ptr<LoadedKernel> load(Plan plan, const Parts& parts) {
  const Family& family = family_of(plan);
  std::string label = label_of(plan);
  std::vector<Image> images;
  for (const cache::Found& part : parts) images.push_back({part.entry->payload, part.entry->compiler});
  auto module = Module::load(images, label, plan);
  return std::make_shared<LoadedKernel>(std::move(plan), family, std::move(label), std::move(module));
}

}  // namespace

// Where nothing can be compiled, a cubin of a lesser arch that runs on the device is better than none.
std::pair<Plan, Parts> Provider::build_for(const DeviceInfo& device, const Config& config, std::string_view name) {
  const std::vector<const Arch*> archs = archs_for(device);
  Plan best = make_plan(config, name, *archs.front());
  if (auto found = builder_.find(best)) return {std::move(best), std::move(*found)};
  if (!builder_.can_compile()) {
    for (const Arch* arch : archs | std::views::drop(1)) {
      Plan plan = make_plan(config, name, *arch);
      if (auto found = builder_.find(plan)) return {std::move(plan), std::move(*found)};
    }
  }
  Parts built = builder_.build(best, file_of(config));
  return {std::move(best), std::move(built)};
}

std::shared_ptr<LoadedKernel> Provider::find_loaded(const LoadedName& key) {
  const std::lock_guard lock(load_mutex_);
  const auto found = loaded_.find(key);
  return found == loaded_.end() ? nullptr : found->second;
}

std::shared_ptr<LoadedKernel> Provider::kernel_on(const DeviceInfo& device, const Config& config,
                                                  std::string_view name) {
  const LoadedName key{config.digest(), std::string(name), archs_for(device).front()->name};
  if (auto kernel = find_loaded(key)) return kernel;
  auto [plan, built] = build_for(device, config, name);
  const std::lock_guard lock(load_mutex_);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;  // another thread was faster
  return loaded_.emplace(key, load(std::move(plan), built)).first->second;
}

std::shared_ptr<const Kernel::State> Provider::make_ready(const Config& config, std::string_view name, int ordinal) {
  const DeviceInfo device = device_info(ordinal);
  const auto kernel = kernel_on(device, config, name);
  {
    const std::lock_guard lock(load_mutex_);
    kernel->prepare(device);
  }
  log_(LogLevel::debug, fmt::format("{}: ready on {}", kernel->label, device.label()));
  return kernel;
}

}  // namespace moegen::cuda
