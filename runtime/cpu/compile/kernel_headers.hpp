// SPDX-License-Identifier: Apache-2.0
// The headers that kernel text is compiled against, embedded by the build: compile/prelude.cuh and calls/*.h.
#pragma once

#include <cstddef>
#include <string_view>

namespace moegen::cpu {

struct KernelHeader {
  std::string_view path;  ///< relative to runtime/cpu
  std::string_view text;
};

extern const KernelHeader kKernelHeaders[];
extern const std::size_t kNumKernelHeaders;

}  // namespace moegen::cpu
