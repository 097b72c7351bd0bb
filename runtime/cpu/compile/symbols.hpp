// SPDX-License-Identifier: Apache-2.0
// What a loaded object may refer to.
#pragma once

#include <span>
#include <vector>

namespace moegen::cpu {

struct Symbol {
  const char* name;
  void* address;
};

/// Every call of calls/*.h, as the model implements it.
std::vector<Symbol> model_symbols();

/// What the code generator itself calls: moving memory, and arithmetic that the host has no instruction for.
std::vector<Symbol> support_symbols();

}  // namespace moegen::cpu
