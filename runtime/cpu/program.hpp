// SPDX-License-Identifier: Apache-2.0
// HostProgram: a loaded object, as the compiler makes it and the model runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/compile/sites.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {

/// An entry point on the host: takes what cuLaunchKernelEx takes as kernelParams; runs on the stack of a thread.
using HostEntry = void (*)(void** parameters);

struct HostProgram : Program {
  struct Entry {
    std::string name;
    HostEntry function = nullptr;
    std::uint32_t max_threads = 0;          ///< of a block, as __launch_bounds__ of the text says; 0: it does not
    std::uint32_t static_shared_bytes = 0;  ///< the dynamic part begins there, rounded up to dynamic_shared_alignment
    std::uint32_t dynamic_shared_offset = 0;
  };
  std::vector<Entry> entries;
  Sites sites;
  std::vector<std::pair<const void*, std::size_t>> constants;  ///< globals of the text that kernels may read
  const Entry* find(std::string_view name) const noexcept;
};

}  // namespace moegen::cpu
