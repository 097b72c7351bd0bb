// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/async_state.hpp"

namespace moegen::cpu {

AsyncState& async_state(Block& block) {
  if (!block.async) block.async = std::make_shared<AsyncState>();
  return *block.async;
}

}  // namespace moegen::cpu
