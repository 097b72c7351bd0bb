// SPDX-License-Identifier: Apache-2.0
// GPU architectures as NVRTC names them, with the limits that plans must respect.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moegen {

/// One compile target, e.g. sm_90a. Values come from the table in arch.cpp only.
struct Arch {
  std::string_view name;          ///< NVRTC's spelling, e.g. "sm_90a"
  int major = 0, minor = 0;       ///< compute capability
  bool accelerated = false;       ///< the 'a' variant: runs on exactly this capability, has wgmma/tcgen05
  int max_shared_bytes = 0;       ///< dynamic shared memory one block may ask for, bytes
  int max_threads_per_sm = 0;     ///< resident threads of one multiprocessor
  bool clusters = false;          ///< thread block clusters and distributed shared memory (sm_90 up, not sm_120)
  int max_cluster = 1;            ///< largest cluster, non-portable sizes included
  bool dependent_launch = false;  ///< programmatic dependent launch (griddepcontrol), sm_90 up

  bool operator==(const Arch& other) const noexcept { return name == other.name; }
};

/// Every arch that moegen compiles for, ascending.
std::span<const Arch> all_archs() noexcept;

/// The arch called `name` ("sm_90a"). Throws: config, with the list of names and a did-you-mean.
const Arch& find_arch(std::string_view name);

/// The best arch for a device of compute capability `major`.`minor`: the accelerated one of exactly that capability,
/// else the highest non-accelerated one of the same major and a lower or equal minor. Nothing if there is none.
const Arch* arch_for_device(int major, int minor) noexcept;

/// True if a cubin made for `arch` runs on a device of compute capability `major`.`minor`.
bool runs_on(const Arch& arch, int major, int minor) noexcept;

}  // namespace moegen
