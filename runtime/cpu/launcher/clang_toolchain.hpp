// SPDX-License-Identifier: Apache-2.0
// ClangToolchain: the Clang of libmoegen_cpu.so as the toolchain of the CPU target.
#pragma once

#include <moegen/cpu_target.hpp>

#include "toolchain.hpp"

namespace moegen::cpu {

class ClangToolchain final : public Toolchain {
 public:
  explicit ClangToolchain(const CpuOptions& options) : check_(options.check) {}
  moegen::Target target() const noexcept override { return moegen::Target::cpu; }
  std::vector<Plan> parts(const Plan& plan) const override { return {plan}; }  // an object is loaded as one program
  std::vector<std::string> flags(const Arch& arch) const override;
  std::string build_options() const override { return check_ ? " --target cpu --check" : " --target cpu"; }
  bool available(std::string* why) const override;
  std::string version() const override;
  bool is_current(std::string_view version) const override;
  Compiled compile(std::string_view source, const std::string& file_name, const Arch& arch,
                   const std::vector<std::string>& entries) const override;

 private:
  bool check_;
};

}  // namespace moegen::cpu
