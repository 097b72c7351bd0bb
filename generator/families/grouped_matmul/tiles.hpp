// SPDX-License-Identifier: Apache-2.0
// How grouped_matmul cuts its work on Hopper: the tiles of one entry point, what makes them legal, and what they cost.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/arch.hpp>

#include "families/grouped_matmul/problem.hpp"

namespace moegen::grouped_matmul {

/// One way to tile, in the words of the device templates (struct T in pipeline.cuh and its users).
struct TilePlan {
  std::string_view name;    ///< "narrow": few rows a group; "wide": many; "tall": many, tokens on M; "portable"
  int max_tokens = 0;       ///< rows of a in a tile
  std::vector<int> widths;  ///< of tokens, that have a loop of their own; ascending, the last is max_tokens
  int warpgroups = 2;       ///< that multiply; 64 rows of M each
  int weight_rows = 128;    ///< rows of b in a tile
  int stages = 0;
  int cluster = 1;         ///< blocks that share their tokens
  int staging_rows = 0;    ///< rows of c that a warpgroup stages at once
  int store_rows = 0;      ///< rows of c in a box of tensor stores; 0: no tensor stores
  int staging_panels = 0;  ///< of 128 bytes of each row, that a warpgroup stages at once for tensor stores; 0: all
  int scale_warps = 0;
  int scale_registers = 56;  ///< of a thread that loads, where some bring scales or gather
  int gather_warps = 0;      ///< that bring tokens, where their rows lie anywhere; with block scales, these, too
  int raster = 4;            ///< units of columns side by side
  int even_tiles = 8;        ///< groups of up to so many tiles are split evenly
  int dealt = 0;             ///< 1: a warp counts which cluster is free first; 0: clusters take tiles in turn
  bool tokens_on_m = false;
  int weights_once = 0;  ///< 1: weights leave L2 first
  int width_step = 32;   ///< of widths, from it on

  bool portable = false;  ///< for every arch: by the matrix product of a warp, without tensor copies

  std::int64_t least_rows = 0;  ///< a group's rows, on average, from which on these tiles are taken

  /// Tiles begin at stage 0, and loops over stages are unrolled. (192 tokens on N then spill.)
  bool aligned(const MatmulProblem& problem) const { return tokens_on_m && problem.depth_blocks() % stages == 0; }
  /// Columns of a product with tokens on M: a sum of more is multiplied in two halves.
  int part_columns() const { return weight_rows <= 192 ? weight_rows : weight_rows / 2; }
  /// Parts of the weights that each lie in one block of scales.
  int scale_chunks(const MatmulProblem& problem) const;
  /// Floats of a stage that carry block scales.
  int scale_floats(const MatmulProblem& problem) const;
  /// Rows that tiles are cut to: those of a warpgroup, or 8 for each block of a cluster.
  int token_step() const { return tokens_on_m ? 64 : 8 * cluster; }
  /// Bytes of a stage beside its rows of a and b: scales.
  std::int64_t scale_bytes(const MatmulProblem& problem) const;
  int tile_columns(const MatmulProblem& problem) const { return problem.gated ? weight_rows / 2 : weight_rows; }
  /// Neighbouring tiles that a block takes one after the other, because their columns are quantised together.
  int joined_tiles(const MatmulProblem& problem) const;
  /// Columns of c that a warpgroup stages side by side.
  int warpgroup_columns(const MatmulProblem& problem) const {
    const int columns = tile_columns(problem) * joined_tiles(problem);
    return tokens_on_m ? columns : columns / warpgroups;
  }
  int threads() const { return 128 * (warpgroups + (portable ? 0 : 1)); }
  /// Heights of token boxes that widths below the largest are made of, or-ed.
  int box_heights() const;
  int pool_registers() const;
  int loader_registers() const;
  int multiplier_registers() const;
  std::int64_t staging_bytes(const MatmulProblem& problem) const;
  std::int64_t shared_bytes(const MatmulProblem& problem) const;
};

/// What keeps `tiles` from being launched for `problem`; "" if nothing does.
std::string illegal_because(const TilePlan& tiles, const MatmulProblem& problem, const Arch& arch);

/// Values to try for parameters of tiles by "TILES_PARAMETER" ("wide_stages"): tune.space.
using TileSpace = std::map<std::string, std::vector<std::int64_t>>;

/// A way to tile that was not taken, and why.
struct Rejection {
  std::string tiles, reason;
};

/// True for what tensor copies and the asynchronous matrix product do: on sm_90a all but gathered rows of mxfp8, whose
/// scales are brought otherwise.
bool takes_tensor_copies(const MatmulProblem& problem, const Arch& arch);

/// On sm_90a the tiles for few rows a group and for more, in that order; elsewhere one for all. Of the candidates,
/// those within `space`, the legal one with the best score; the others go to `rejected`. Throws: unsupported where
/// `space` leaves none, or has a name that is no parameter of tiles.
std::vector<TilePlan> choose_tiles(const MatmulProblem& problem, const Arch& arch, const TileSpace& space,
                                   std::vector<Rejection>& rejected);

/// Modelled cycles of one multiprocessor for a million useful products at full tiles; less is better.
double score(const TilePlan& tiles, const MatmulProblem& problem);

/// Why `tiles` are dealt, or are not.
std::string_view dealt_because(const TilePlan& tiles, const MatmulProblem& problem);

/// "128 weights x 192 tokens, 4 stages, cluster 1, staging 64, raster 4, dealt"
std::string describe(const TilePlan& tiles);

}  // namespace moegen::grouped_matmul
