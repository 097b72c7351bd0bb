// SPDX-License-Identifier: Apache-2.0
// How an entry of a kernel text is launched, on either target.
#pragma once

#include <cstdint>

namespace moegen::test {

struct TextLaunch {
  std::uint32_t grid = 1, block = 128;
  std::uint32_t shared_bytes = 0;  ///< dynamic
  std::uint32_t cluster = 1;
  bool cooperative = false;
};

}  // namespace moegen::test
