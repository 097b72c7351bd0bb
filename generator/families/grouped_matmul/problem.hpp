// SPDX-License-Identifier: Apache-2.0
// MatmulProblem: what one of a layer's two matmuls computes, read off the config. Plans add how.
#pragma once

#include <cstdint>
#include <string_view>

#include <moegen/arch.hpp>
#include <moegen/config.hpp>
#include <moegen/plan.hpp>

#include "plan_builder.hpp"

namespace moegen::grouped_matmul {

enum class Role { up, down };

/// `depth`, `columns` and `output_columns` are K, N and C of templates/grouped_matmul/args.h.
struct MatmulProblem {
  Role role = Role::up;
  Scheme scheme = Scheme::none;
  Dtype element = Dtype::bfloat16;  ///< of a and b
  Dtype output = Dtype::bfloat16;
  Dtype scale = Dtype::float32;
  Dtype bias_dtype = Dtype::bfloat16;
  std::int64_t depth = 0, columns = 0, output_columns = 0;
  std::int64_t num_experts = 0;  ///< of b
  int num_slots = 1;             ///< pairs of a token: what order is divided by
  bool bias = false;
  bool promote = false;          ///< fp8 partial sums go to float registers every 128 of K
  bool fuse_activation = false;  ///< the epilogue applies the activation
  bool fuse_quantize = false;    ///< and quantises c
  bool gated = false;            ///< of gate and up, which are multiplied in one tile
  bool halves = true;            ///< of b's rows: first all of gate, then all of up; else in turns
  bool limit_per_expert = false;
  bool epilogue = false;
  bool gather_a = false;  ///< rows of a are read through order
  bool column_scales = false;

  bool block_scales() const noexcept { return scheme == Scheme::block128; }
  bool mx_scales() const noexcept { return scheme == Scheme::mxfp8; }
  /// Factors of block scales for a token: gate and up lie in different blocks of b's rows.
  int scales_per_token() const noexcept { return block_scales() && gated && halves ? 2 : 1; }
  std::int64_t element_bytes() const noexcept { return bits(element) / 8; }
  /// Slices of K: 128 bytes, what a stage holds.
  std::int64_t depth_blocks() const noexcept { return (depth * element_bytes() + 127) / 128; }
};

/// Reads `config` and writes down what it decides. Throws: unsupported, naming the field that asks for what moegen has
/// not.
MatmulProblem read_problem(const Config& config, std::string_view kernel, const Arch& arch, PlanBuilder& plan);

}  // namespace moegen::grouped_matmul
