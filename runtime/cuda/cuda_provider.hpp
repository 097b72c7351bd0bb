// SPDX-License-Identifier: Apache-2.0
// cuda::Provider: kernels on the GPUs of this process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "cuda/device.hpp"
#include "cuda/loaded_kernel.hpp"
#include "logger.hpp"
#include "provider.hpp"

namespace moegen::cuda {

class Provider final : public KernelProvider {
 public:
  Provider(Builder& builder, const Logger& log) : builder_(builder), log_(log) {}
  int current_device() const override { return cuda::current_device(); }
  std::shared_ptr<const Kernel::State> make_ready(const Config& config, std::string_view name, int device) override;

 private:
  /// One load serves every device of an arch, so loaded kernels are found by the arch that the device would like best.
  using LoadedName = std::tuple<std::uint64_t, std::string, std::string_view>;

  std::shared_ptr<LoadedKernel> kernel_on(const DeviceInfo& device, const Config& config, std::string_view name);
  std::shared_ptr<LoadedKernel> find_loaded(const LoadedName& key);
  std::pair<Plan, Parts> build_for(const DeviceInfo& device, const Config& config, std::string_view name);

  Builder& builder_;
  const Logger& log_;
  std::mutex load_mutex_;  ///< over loading and preparing, never over a compile
  std::map<LoadedName, std::shared_ptr<LoadedKernel>> loaded_;
};

}  // namespace moegen::cuda
