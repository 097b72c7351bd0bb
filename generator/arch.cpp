// SPDX-License-Identifier: Apache-2.0
#include <moegen/arch.hpp>

#include <array>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>

#include "did_you_mean.hpp"

namespace moegen {
namespace {

// Shared memory, threads and cluster limits: CUDA C++ Programming Guide, "Compute Capabilities" (13.0).
// sm_120 has clusters in hardware but moegen has not been run on one, so plans for it use none.
constexpr std::array<Arch, 8> kArchs = {{
    {.name = "sm_80",
     .major = 8,
     .minor = 0,
     .accelerated = false,
     .max_shared_bytes = 166912,
     .max_threads_per_sm = 2048,
     .clusters = false,
     .max_cluster = 1,
     .dependent_launch = false},
    {.name = "sm_86",
     .major = 8,
     .minor = 6,
     .accelerated = false,
     .max_shared_bytes = 101376,
     .max_threads_per_sm = 1536,
     .clusters = false,
     .max_cluster = 1,
     .dependent_launch = false},
    {.name = "sm_89",
     .major = 8,
     .minor = 9,
     .accelerated = false,
     .max_shared_bytes = 101376,
     .max_threads_per_sm = 1536,
     .clusters = false,
     .max_cluster = 1,
     .dependent_launch = false},
    {.name = "sm_90",
     .major = 9,
     .minor = 0,
     .accelerated = false,
     .max_shared_bytes = 232448,
     .max_threads_per_sm = 2048,
     .clusters = true,
     .max_cluster = 16,
     .dependent_launch = true},
    {.name = "sm_90a",
     .major = 9,
     .minor = 0,
     .accelerated = true,
     .max_shared_bytes = 232448,
     .max_threads_per_sm = 2048,
     .clusters = true,
     .max_cluster = 16,
     .dependent_launch = true},
    {.name = "sm_100a",
     .major = 10,
     .minor = 0,
     .accelerated = true,
     .max_shared_bytes = 232448,
     .max_threads_per_sm = 2048,
     .clusters = true,
     .max_cluster = 16,
     .dependent_launch = true},
    {.name = "sm_103a",
     .major = 10,
     .minor = 3,
     .accelerated = true,
     .max_shared_bytes = 232448,
     .max_threads_per_sm = 2048,
     .clusters = true,
     .max_cluster = 16,
     .dependent_launch = true},
    {.name = "sm_120a",
     .major = 12,
     .minor = 0,
     .accelerated = true,
     .max_shared_bytes = 101376,
     .max_threads_per_sm = 1536,
     .clusters = false,
     .max_cluster = 1,
     .dependent_launch = true},
}};

std::vector<std::string_view> arch_names() {
  std::vector<std::string_view> names;
  for (const Arch& arch : kArchs) names.push_back(arch.name);
  return names;
}

}  // namespace

std::span<const Arch> all_archs() noexcept { return kArchs; }

const Arch& find_arch(std::string_view name) {
  for (const Arch& arch : kArchs)
    if (arch.name == name) return arch;
  throw Error(ErrorCode::config, fmt::format("arch '{}' is not known; allowed {}{}", name,
                                             fmt::join(arch_names(), ", "), did_you_mean(name, arch_names())));
}

bool runs_on(const Arch& arch, int major, int minor) noexcept {
  if (arch.accelerated) return arch.major == major && arch.minor == minor;
  return arch.major == major && arch.minor <= minor;
}

const Arch* arch_for_device(int major, int minor) noexcept {
  const Arch* best = nullptr;
  for (const Arch& arch : kArchs)
    if (runs_on(arch, major, minor)) best = &arch;  // ascending, and 'a' follows its plain sibling
  return best;
}

}  // namespace moegen
