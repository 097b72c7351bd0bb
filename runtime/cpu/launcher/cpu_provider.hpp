// SPDX-License-Identifier: Apache-2.0
// cpu::Provider: kernels on the CPU target.
#pragma once

#include <moegen/cpu_target.hpp>

#include "provider.hpp"

namespace moegen::cpu {

/// There is one device, number 0.
class Provider final : public KernelProvider {
 public:
  /// Throws: config for options outside their range.
  Provider(const CpuOptions& options, Builder& builder);
  int current_device() const override { return 0; }
  std::shared_ptr<const Kernel::State> make_ready(const Config& config, std::string_view name, int device) override;

 private:
  CpuOptions options_;
  Builder& builder_;
};

}  // namespace moegen::cpu
