// SPDX-License-Identifier: Apache-2.0
// Family: what one kind of kernel knows about itself. One family = one file in families/.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/core/tensor_map.h>
#include <moegen/config.hpp>
#include <moegen/plan.hpp>

namespace moegen {

/// Numbers that a family derives from its Plan once, so that a launch computes nothing twice and looks nothing up.
/// Each family names its own slots in an enum.
using LaunchConstants = std::array<std::int64_t, 48>;

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

/// A tensor in global memory and the box that one tensor copy moves, in the 128-byte swizzle. Innermost dimension
/// first.
struct BoxMap {
  std::uint32_t element_bytes = 1;  ///< 1 or 2
  std::uint32_t rank = 0;           ///< 2 .. 5
  const void* base = nullptr;
  std::uint64_t dims[5] = {};     ///< elements
  std::uint64_t strides[4] = {};  ///< bytes, of all dimensions but the innermost
  std::uint32_t box[5] = {};      ///< elements
};

/// Makes tensor maps for the target of a kernel; allocates nothing on CUDA.
class MapEncoder {
 public:
  virtual ~MapEncoder() = default;
  /// Throws: config for a tensor that cannot be described; driver.
  virtual void encode(const BoxMap& box, TensorMap& map) const = 0;
};

/// Most bytes of a kernel's parameter.
inline constexpr std::size_t kMaxParameterBytes = 2048;

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
  /// Makes what the kernel takes from `args`, into `buffer` (kMaxParameterBytes, aligned to 64), and returns where it
  /// is; null = the kernel takes `args` as they are. Never allocates. Throws: as `maps` does.
  const void* (*prepare)(const LaunchConstants& constants, const Launch& launch, const MapEncoder& maps,
                         const void* args, void* buffer) = nullptr;
  /// Each entry point is a text of its own for the compiler: `templates` and `fragments` go by Plan::entries, and what
  /// entries share is worth less than the time that they take one after another.
  bool entries_apart = false;
};

/// Every family of this version, in the order of a layer's work.
std::span<const Family* const> all_families() noexcept;

/// The family called `name`, or null.
const Family* find_family(std::string_view name) noexcept;

/// Names of families that contracts know but this version lacks ("router", ...): refused as unsupported, not as a typo.
std::span<const std::string_view> future_families() noexcept;

}  // namespace moegen
