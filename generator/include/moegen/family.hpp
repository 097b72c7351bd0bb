// SPDX-License-Identifier: Apache-2.0
// Family: what one kind of kernel knows about itself. One family = one file in families/.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/plan.hpp>

namespace moegen {

/// Numbers that a family derives from its Plan once, so that a launch computes nothing twice and looks nothing up.
/// Each family names its own slots in an enum.
using LaunchConstants = std::array<std::int64_t, 16>;

/// Facts of the device a launch goes to.
struct LaunchDevice {
  int num_sms = 0;
  std::uint32_t max_cluster = 1;  ///< largest power of two that this kernel's cluster entry can launch as; 1 = none
};

/// What to launch for one set of arguments.
struct Launch {
  int entry = 0;              ///< index into Plan::entries
  std::uint32_t grid = 0;     ///< blocks along x; 0 = nothing to launch
  std::uint32_t cluster = 1;  ///< blocks of a cluster along x; divides grid, at most EntryPlan::cluster
};

/// The behaviour of a kernel family. Plain function pointers: no virtual call and no allocation on the launch path.
struct Family {
  std::string_view name;
  int tag = 0;  ///< equals Args::kFamily of the family's argument struct; 1 router .. 9 ep_combine, in work order

  /// The kernels of this family that `config` needs; empty if none.
  std::vector<std::string> (*kernels)(const Config& config);
  Plan (*plan)(const Config& config, std::string_view kernel, const Arch& arch);
  /// The files below templates/ that the source is made of, with what they include.
  std::vector<std::string_view> (*templates)(const Plan& plan);
  std::string_view (*entry_template)(const EntryPlan& entry);  ///< "create_indices::run<Params>"

  /// Text that goes between Params and the entry points (user expressions); may be null.
  std::string (*fragments)(const Plan& plan);

  LaunchConstants (*constants)(const Plan& plan);
  /// Entry and grid for `args` (the family's argument struct). Never throws, never allocates.
  Launch (*launch)(const LaunchConstants& constants, const LaunchDevice& device, const void* args) noexcept;
  /// Null if `args` can be launched, else a sentence that names the argument and what is allowed.
  /// Never allocates: the sentence is a literal.
  const char* (*check)(const LaunchConstants& constants, const LaunchDevice& device, const void* args) noexcept;
  /// Bytes of workspace that a launch with `args` needs; null = never any.
  std::int64_t (*workspace_bytes)(const LaunchConstants& constants, const LaunchDevice& device,
                                  const void* args) noexcept;
};

/// Every family of this version, in the order of a layer's work.
std::span<const Family* const> all_families() noexcept;

/// The family called `name`, or null.
const Family* find_family(std::string_view name) noexcept;

/// Names of families that contracts know but this version lacks ("router", ...): refused as unsupported, not as a typo.
std::span<const std::string_view> future_families() noexcept;

}  // namespace moegen
