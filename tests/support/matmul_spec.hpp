// SPDX-License-Identifier: Apache-2.0
// What a plan of grouped_matmul decides for a config that leaves nothing open, without a plan.
#pragma once

#include <moegen/config.hpp>

#include "reference/grouped_matmul.hpp"

namespace moegen::test {

/// Of the up or the down projection of `config`; "auto" counts as false.
inline reference::MatmulSpec spec_of(const Config& config, bool up) {
  const ConfigFields& f = config.fields();
  reference::MatmulSpec spec;
  spec.fields = f;
  spec.up = up;
  spec.depth = up ? f.expert_hidden : f.intermediate;
  spec.columns = up ? f.intermediate * (f.activation.gated ? 2 : 1) : f.expert_hidden;
  spec.fuse_activation = up && f.experts.fuse_activation == moegen::Choice::yes;
  spec.fuse_quantize = up && f.experts.fuse_quantize == moegen::Choice::yes;
  spec.gather_a = up && f.experts.gather_a == moegen::Choice::yes;
  spec.output_columns = spec.fuse_activation ? f.intermediate : spec.columns;
  spec.output = spec.fuse_quantize ? Dtype::float8_e4m3fn : up ? f.dtypes.activation : f.finalize.down;
  return spec;
}

}  // namespace moegen::test
