// SPDX-License-Identifier: Apache-2.0
#include "provider.hpp"

#include <system_error>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "cpu/launcher/cpu_provider.hpp"
#include "cuda/cuda_provider.hpp"

namespace moegen {

std::unique_ptr<KernelProvider> make_provider(const EngineOptions& options, Builder& builder, const Logger& log) {
  if (options.target == Target::cpu) return std::make_unique<cpu::Provider>(options.cpu, builder);
  return std::make_unique<cuda::Provider>(builder, log);
}

const Family& family_of(const Plan& plan) {
  if (const Family* family = find_family(plan.family)) return *family;
  throw Error(ErrorCode::internal, fmt::format("{}: the plan names no family ('{}')", label_of(plan), plan.family));
}

std::string file_of(const Config& config) {
  std::error_code error;
  return std::filesystem::is_regular_file(config.origin(), error) ? config.origin() : "";
}

}  // namespace moegen
