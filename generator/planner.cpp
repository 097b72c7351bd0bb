// SPDX-License-Identifier: Apache-2.0
// Config -> Plan: finds the family and lets it decide.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>
#include <moegen/plan.hpp>

#include "did_you_mean.hpp"
#include "families/activation_fields.hpp"

namespace moegen {

extern const Family kActivationFamily;
extern const Family kCreateIndicesFamily;
extern const Family kFinalizeFamily;
extern const Family kGroupedMatmulFamily;
extern const Family kPermuteFamily;
extern const Family kQuantizeFamily;
extern const Family kRouterFamily;

namespace {

// The one list of families: a new one costs a word here.
constexpr std::array<const Family*, 7> kFamilies = {&kRouterFamily,        &kCreateIndicesFamily, &kPermuteFamily,
                                                    &kGroupedMatmulFamily, &kActivationFamily,    &kQuantizeFamily,
                                                    &kFinalizeFamily};

constexpr std::array<std::string_view, 2> kFutureFamilies = {"ep_dispatch", "ep_combine"};

std::string_view family_of(std::string_view kernel) { return kernel.substr(0, kernel.find('.')); }

[[noreturn]] void refuse_future(std::string_view kernel) {
  std::vector<std::string_view> names;
  for (const Family* family : kFamilies) names.push_back(family->name);
  throw Error(ErrorCode::unsupported,
              fmt::format("kernel '{}': this version of moegen has no '{}' family yet; available {}", kernel,
                          family_of(kernel), fmt::join(names, ", ")));
}

[[noreturn]] void refuse_unknown(const Config& config, std::string_view kernel) {
  const std::vector<std::string> kernels = kernels_of(config);
  std::vector<std::string_view> names(kernels.begin(), kernels.end());
  throw Error(ErrorCode::config, fmt::format("{}: no kernel '{}' in this config; allowed {}{}", config.origin(), kernel,
                                             fmt::join(names, ", "), did_you_mean(kernel, names)));
}

}  // namespace

std::span<const Family* const> all_families() noexcept { return kFamilies; }

const Family* find_family(std::string_view name) noexcept {
  for (const Family* family : kFamilies)
    if (family->name == name) return family;
  return nullptr;
}

std::span<const std::string_view> future_families() noexcept { return kFutureFamilies; }

// Families of later versions are named from the config alone.
std::vector<std::string> kernels_of(const Config& config) {
  const ConfigFields& fields = config.fields();
  std::vector<std::string> kernels = {"router"};
  if (fields.expert_parallel.ranks > 1) kernels.emplace_back("ep_dispatch");
  kernels.insert(kernels.end(), {"create_indices", "permute"});
  const bool quantised = quantises_rows(fields.quantization.scheme);
  if (quantised) kernels.emplace_back("quantize.up");
  kernels.insert(kernels.end(), {"grouped_matmul.up", "activation"});
  if (quantised) kernels.emplace_back("quantize.down");
  kernels.insert(kernels.end(), {"grouped_matmul.down", "finalize"});
  if (fields.expert_parallel.ranks > 1) kernels.emplace_back("ep_combine");
  return kernels;
}

std::vector<std::string> available_kernels_of(const Config& config) {
  std::vector<std::string> kernels;
  for (std::string& kernel : kernels_of(config))
    if (find_family(family_of(kernel))) kernels.push_back(std::move(kernel));
  return kernels;
}

Plan make_plan(const Config& config, std::string_view kernel, const Arch& arch) {
  const std::string_view name = family_of(kernel);
  if (std::find(kFutureFamilies.begin(), kFutureFamilies.end(), name) != kFutureFamilies.end()) refuse_future(kernel);
  const Family* family = find_family(name);
  if (!family) refuse_unknown(config, kernel);
  const std::vector<std::string> kernels = family->kernels(config);
  if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) refuse_unknown(config, kernel);
  return family->plan(config, kernel, arch);
}

}  // namespace moegen
