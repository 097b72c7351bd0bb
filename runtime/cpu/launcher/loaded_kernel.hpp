// SPDX-License-Identifier: Apache-2.0
// cpu::LoadedKernel: a kernel compiled for the host, ready to run on the model of a GPU.
#pragma once

#include <memory>
#include <string>

#include <moegen/cpu_target.hpp>

#include "kernel_state.hpp"

namespace moegen::cpu {

class Target;
class Program;

class LoadedKernel final : public Kernel::State {
 public:
  LoadedKernel(Plan made_plan, const Family& made_family, std::string made_label, const Target& target,
               std::shared_ptr<const Program> program, const CpuOptions& options);

  /// The same kernel with another schedule.
  LoadedKernel(const LoadedKernel& other, const CpuOptions& schedule);

  moegen::Target target() const noexcept override { return moegen::Target::cpu; }
  const LaunchDevice& current_device() const override { return device_; }
  void launch(const Launch& what, const void* args, CUstream_st* stream) const override;
  void encode(const BoxMap& box, TensorMap& map) const override;

 private:
  const Target& target_;
  const std::shared_ptr<const Program> program_;
  const CpuOptions options_;
  const LaunchDevice device_;
};

}  // namespace moegen::cpu
