// SPDX-License-Identifier: Apache-2.0
// NvrtcToolchain: NVRTC as the toolchain of the cuda target.
#pragma once

#include "toolchain.hpp"

namespace moegen::cuda {

class NvrtcToolchain final : public Toolchain {
 public:
  Target target() const noexcept override { return Target::cuda; }
  std::vector<Plan> parts(const Plan& plan) const override;
  std::vector<std::string> flags(const Arch& arch) const override;
  std::string build_options() const override { return ""; }
  bool available(std::string* why) const override;
  std::string version() const override;
  bool is_current(std::string_view version) const override;
  Compiled compile(std::string_view source, const std::string& file_name, const Arch& arch,
                   const std::vector<std::string>& entries) const override;
};

}  // namespace moegen::cuda
