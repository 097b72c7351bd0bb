// SPDX-License-Identifier: Apache-2.0
#include "cpu/compile/symbols.hpp"

#include "cpu/calls/copies.h"
#include "cpu/calls/matrix.h"
#include "cpu/calls/sync.h"
#include "cpu/model/guard.hpp"

namespace moegen::cpu {

std::vector<Symbol> model_symbols() {
#define MOEGEN_CPU_SYMBOL(name) {#name, reinterpret_cast<void*>(&Guarded<&(name)>::call)},
  return {MOEGEN_CPU_SYNC_CALLS(MOEGEN_CPU_SYMBOL)  //
          MOEGEN_CPU_COPY_CALLS(MOEGEN_CPU_SYMBOL)  //
          MOEGEN_CPU_MATRIX_CALLS(MOEGEN_CPU_SYMBOL)};
#undef MOEGEN_CPU_SYMBOL
}

}  // namespace moegen::cpu
