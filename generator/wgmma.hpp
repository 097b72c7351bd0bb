// SPDX-License-Identifier: Apache-2.0
// The bodies of Wgmma<Element, N> (templates/core/wgmma.cuh) as device code. PTX names each accumulator of a product,
// so a text with all shapes would be long; a kernel carries those that it uses.
#pragma once

#include <string>

#include <moegen/dtype.hpp>

namespace moegen {

/// One shape: `n` columns (8 .. 256, a multiple of 8), elements bfloat16, float16 or float8_e4m3fn.
struct WgmmaShape {
  Dtype element = Dtype::bfloat16;
  int n = 0;
};

/// The specialisation for `shape`, with both overloads of multiply: A from shared memory and from registers. Stands in
/// namespace moegen, after core/wgmma.cuh. Throws: internal for a shape that there is not.
std::string spell_wgmma(const WgmmaShape& shape);

}  // namespace moegen
