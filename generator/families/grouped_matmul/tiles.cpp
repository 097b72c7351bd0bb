// SPDX-License-Identifier: Apache-2.0
#include "families/grouped_matmul/tiles.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>

#include "did_you_mean.hpp"

namespace moegen::grouped_matmul {
namespace {

constexpr std::int64_t kSliceBytes = 128;
constexpr std::int64_t kNoteBytes = 4 * 16;  // a Tile for each warp of a warpgroup
// kQueuePlaces of 32 bytes, a warp of words, kDealTimes of kMostWorkers bytes: pipeline.cuh.
constexpr std::int64_t kDealBytes = 4 * 32 + 32 * 4 + 8 * 160;
constexpr int kMostStages = 12;  // 11 of 18 KiB already cover the latency of HBM at its full speed (prototype, decode)

// Products of mxfp8 that are on their way at once: kMxAhead of sum_mxfp8.cuh.
int mx_ahead(int columns) { return columns <= 64 ? 4 : columns <= 96 ? 2 : 1; }

// Accumulators of a thread: the product's columns, and once more where they are promoted.
int accumulators(const TilePlan& tiles, const MatmulProblem& problem) {
  const int columns = tiles.tokens_on_m ? tiles.weight_rows : tiles.max_tokens;
  if (problem.mx_scales()) return columns / 2 * (1 + mx_ahead(columns));
  const int partial = tiles.tokens_on_m ? tiles.part_columns() : columns;
  return columns / 2 + (problem.promote ? partial / 2 : 0);
}

std::int64_t stage_bytes(const TilePlan& tiles, const MatmulProblem& problem) {
  constexpr std::int64_t kTileAndBarriers = 16 + 2 * 8;
  return (tiles.weight_rows + tiles.max_tokens) * kSliceBytes + tiles.scale_bytes(problem) + kTileAndBarriers;
}

// A multiplying warpgroup's staging, and with tokens on M its warps' notes of their tile.
std::int64_t warpgroup_bytes(const TilePlan& tiles, const MatmulProblem& problem) {
  return tiles.staging_bytes(problem) + (tiles.tokens_on_m ? kNoteBytes : 0);
}

std::int64_t deal_bytes(const TilePlan& tiles) { return tiles.dealt != 0 ? kDealBytes : 0; }

// As many stages as fit beside the staging; for promoted sums, whose loop is then unrolled, one that divides the
// slices.
int fitting_stages(const TilePlan& tiles, const MatmulProblem& problem, const Arch& arch) {
  const std::int64_t beside = tiles.warpgroups * warpgroup_bytes(tiles, problem) + deal_bytes(tiles);
  const int most = static_cast<int>(
      std::min<std::int64_t>(kMostStages, (arch.max_shared_bytes - beside) / stage_bytes(tiles, problem)));
  if (!tiles.tokens_on_m) return most;
  for (int stages = most; stages >= 4; --stages)
    if (problem.depth_blocks() % stages == 0) return stages;
  return most;
}

std::vector<int> widths_up_to(int most, int step) {
  std::vector<int> widths;
  for (int width = 8; width < step && width < most; width *= 2) widths.push_back(width);
  for (int width = step; width < most; width += step) widths.push_back(width);
  widths.push_back(most);
  return widths;
}

// ---- candidates ----

// A parameter of tiles that has alternatives, in the words of tune.space.
struct Parameter {
  std::string_view name;
  int TilePlan::* member;
  std::vector<std::int64_t> values;
};

// Rows of c that a warpgroup stages are whole panels of a swizzle.
bool stores_boxes(const TilePlan& tiles, const MatmulProblem& problem) {
  if (problem.fuse_quantize && !tiles.tokens_on_m) return false;
  return tiles.warpgroup_columns(problem) * bits(problem.output) / 8 % kSliceBytes == 0;
}

// As much of a tile's part of c as leaves room for a fourth stage: what is staged need not be waited for.
void fit_staging(TilePlan& tiles, const MatmulProblem& problem, const Arch& arch) {
  const auto stages = [&] { return tiles.stages > 0 ? tiles.stages : fitting_stages(tiles, problem, arch); };
  if (tiles.store_rows > 0 && tiles.staging_panels == 0)
    tiles.staging_panels = static_cast<int>(tiles.warpgroup_columns(problem) * bits(problem.output) / 8 / kSliceBytes);
  if (tiles.tokens_on_m)
    while (tiles.staging_panels > 1 && stages() < 4) --tiles.staging_panels;
  if (tiles.staging_rows == 0) {
    tiles.staging_rows = tiles.store_rows > 0 ? (tiles.max_tokens + 63) / 64 * 64 : 64;
    while (tiles.staging_rows > 64 && stages() < 4) tiles.staging_rows -= 64;
  }
  tiles.stages = stages();
}

// Fills in what follows from the parameters.
TilePlan completed(TilePlan tiles, const MatmulProblem& problem, const Arch& arch) {
  if (tiles.tokens_on_m) {
    tiles.max_tokens = 64 * tiles.warpgroups;
    tiles.staging_rows = 64;
    tiles.store_rows = stores_boxes(tiles, problem) ? 16 : 0;  // what one warp holds
    for (int width = 64; width <= tiles.max_tokens; width += 64) tiles.widths.push_back(width);
  } else {
    tiles.weight_rows = 64 * tiles.warpgroups;
    tiles.store_rows = tiles.least_rows > 0 && stores_boxes(tiles, problem) ? 64 : 0;
    tiles.widths = widths_up_to(tiles.max_tokens, tiles.width_step);
    // Where groups are wide on average, a tile of a few rows waits for its weights, however narrow its products.
    if (tiles.least_rows > 0) std::erase_if(tiles.widths, [](int width) { return width < 32; });
  }
  std::erase_if(tiles.widths, [&](int width) { return width % tiles.token_step() != 0; });
  const int block_warps =
      tiles.max_tokens > 128 && tiles.dealt == 0 ? 3 : 2;  // where tiles are dealt, a warp does that
  tiles.scale_warps = problem.mx_scales() ? 3 : problem.block_scales() ? block_warps : 0;
  if (problem.mx_scales()) tiles.scale_registers = 72;  // of tokens and of weights: with 56 up to 40 bytes of spills
  if (problem.gather_a) tiles.gather_warps = tiles.scale_warps > 0 ? tiles.scale_warps : 3;
  fit_staging(tiles, problem, arch);
  return tiles;
}

// Every combination of the parameters' values.
std::vector<TilePlan> combinations(const TilePlan& base, std::span<const Parameter> parameters) {
  std::vector<TilePlan> all = {base};
  for (const Parameter& parameter : parameters) {
    std::vector<TilePlan> more;
    for (const TilePlan& tiles : all)
      for (std::int64_t value : parameter.values) {
        more.push_back(tiles);
        more.back().*parameter.member = static_cast<int>(value);
      }
    all = std::move(more);
  }
  return all;
}

// A warp of those that load is free: neither gathers nor brings scales of mxfp8.
bool can_deal(const MatmulProblem& problem) { return !problem.gather_a && !problem.mx_scales(); }

// Few rows a group: the weights are what has to be read, at the speed of HBM.
std::vector<Parameter> narrow_parameters() {
  return {{"max_tokens", &TilePlan::max_tokens, {64}},
          {"width_step", &TilePlan::width_step, {64}},
          {"stages", &TilePlan::stages, {0}},
          {"cluster", &TilePlan::cluster, {1}},
          {"staging_rows", &TilePlan::staging_rows, {64}},
          {"raster", &TilePlan::raster, {4}},
          {"warpgroups", &TilePlan::warpgroups, {2}},
          {"weights_once", &TilePlan::weights_once, {1}}};
}

// Dealt, and with 8 units side by side, rowwise fast takes 3 to 4 % less on (8, 33712, 4096, 7168), (128, 65007, 4096,
// 1536) and (8, 8585, 28672, 4096), bfloat16 1 to 3 %; neither alone gains anything. Promoted sums lose 1 to 4 % so
// (124 us against 118 on (128, 8176, 1536, 2048)). What gathers or brings scales of mxfp8 has no warp to deal.
std::vector<Parameter> wide_parameters(const MatmulProblem& problem) {
  const bool dealt = can_deal(problem) && !problem.promote;
  return {{"max_tokens", &TilePlan::max_tokens, {256, 192, 128}},
          {"width_step", &TilePlan::width_step, {32}},
          {"stages", &TilePlan::stages, {0}},
          {"cluster", &TilePlan::cluster, {1}},
          {"staging_rows", &TilePlan::staging_rows, {0}},
          {"raster", &TilePlan::raster, {dealt ? 8 : 4}},
          {"even_tiles", &TilePlan::even_tiles, {8}},
          {"warpgroups", &TilePlan::warpgroups, {2}},
          {"weights_once", &TilePlan::weights_once, {0}},
          {"dealt", &TilePlan::dealt, {dealt ? 1 : 0}}};
}

// Three warpgroups, unless biases of 32 bits for gate and up would spill beside the sums: then 256 rows of b, and the
// registers of two warpgroups. Without gate and up such biases spill 72 bytes where tiles are dealt, none in turn.
std::vector<Parameter> tall_parameters(const MatmulProblem& problem) {
  const bool wide_bias = problem.bias && bits(problem.bias_dtype) == 32, two = problem.gated && wide_bias;
  return {{"warpgroups", &TilePlan::warpgroups, {two ? 2 : 3}},
          {"weight_rows", &TilePlan::weight_rows, {two ? 256 : 128}},
          {"stages", &TilePlan::stages, {0}},
          {"staging_panels", &TilePlan::staging_panels, {0}},
          {"cluster", &TilePlan::cluster, {1}},
          {"raster", &TilePlan::raster, {4}},
          {"even_tiles", &TilePlan::even_tiles, {2}},
          {"dealt", &TilePlan::dealt, {can_deal(problem) && (two || !wide_bias) ? 1 : 0}},
          {"weights_once", &TilePlan::weights_once, {0}}};
}

struct Kind {
  std::string_view name;
  std::int64_t least_rows;
  bool tokens_on_m;
  std::vector<Parameter> parameters;
};

void fix(std::vector<Parameter>& parameters, std::string_view name, std::int64_t value) {
  for (Parameter& parameter : parameters)
    if (parameter.name == name) parameter.values = {value};
}

// A tile, or two that are joined, holds a group of 128 columns of c: as many rows of b, twice that with gate and up.
// Tiles of 256 rows of b, which leave registers for two warpgroups only, are slower than joined ones at all sizes of
// groups: 1802 us against 1728 (508 rows a group), 971 against 952 (508, K = 1536), 132 against 131 (64), about 544
// both (249).
std::vector<Kind> quantizing_kinds(const MatmulProblem& problem) {
  std::vector<Kind> kinds = {{"narrow", 0, false, narrow_parameters()}, {"tall", 41, true, tall_parameters(problem)}};
  fix(kinds[0].parameters, "warpgroups", problem.gated ? 4 : 2);  // 64 rows of b each
  if (problem.gated) fix(kinds[1].parameters, "raster", 8);  // 1728 us against 1762 (508), 1783 against 1803 (4214)
  return kinds;
}

// What keeps few registers in the epilogue: WeightTerms are there while a tile is multiplied.
bool is_plain(const MatmulProblem& problem) {
  return !problem.gated && !problem.bias && !problem.epilogue && !problem.fuse_activation;
}

// Block scales, with tokens on M for all but a few rows: each thread then has the factors of two rows, not one for each
// column, and loops are unrolled. Beside DeepGEMM, rows a group on average in brackets, tokens on N and on M: 0.70 and
// 0.98 (1055), 0.83 and 1.06 (259), 1.00 and 1.13 (130), 1.05 and 1.08 (64). Since tiles are dealt, those of two
// warpgroups and 192 or 256 rows of b gain nothing anywhere: 1531 us against 1508, with gate and up 1726 against 1685
// (508 rows a group).
std::vector<Kind> block_kinds(const MatmulProblem& problem) {
  return {{"narrow", 0, false, narrow_parameters()}, {"tall", 41, true, tall_parameters(problem)}};
}

// Every 32 of K are scaled by row and by column, which costs the same whichever is M: tokens on N. What scales them
// bounds wide tiles (mx_scales.cuh), so that columns that no token uses cost more than elsewhere: widths every 32
// tokens. Up to 160 tokens against 128 with widths every 64 and 96 with widths every 32, us: 1348, 1480 and 1503 (249
// rows a group), 5058, 5245 and 5585 (4214), 509, 670 and 764 (130). 192 spill beside the scales.
std::vector<Kind> mx_kinds(const MatmulProblem& problem) {
  std::vector<Kind> kinds = {{"narrow", 0, false, narrow_parameters()}, {"wide", 41, false, wide_parameters(problem)}};
  fix(kinds[1].parameters, "max_tokens", 160);
  return kinds;
}

// Narrow tiles up to 40 rows a group: counts that vary by half then still fit one tile of 64. Promoted sums of larger
// groups go to tokens on M, whose loops are unrolled: 469 us against 489 (249 rows a group), 1464 against 1620 (508),
// but 189 against 177 (130).
std::vector<Kind> kinds_of(const MatmulProblem& problem) {
  if (problem.mx_scales()) return mx_kinds(problem);
  if (problem.fuse_quantize) return quantizing_kinds(problem);
  if (problem.block_scales()) return block_kinds(problem);
  std::vector<Kind> kinds = {{"narrow", 0, false, narrow_parameters()}, {"wide", 41, false, wide_parameters(problem)}};
  // Each float of a 4-byte c has a place of its own while it is stored: 100 bytes of spills with tokens on M. So are
  // there beside loaders that gather, which need the registers of which 3 x 64 x 128 sums leave too few.
  if (problem.promote && is_plain(problem) && bits(problem.output) < 32 && !problem.gather_a)
    kinds.push_back({"tall", 200, true, tall_parameters(problem)});
  return kinds;
}

void limit(Kind& kind, const TileSpace& space) {
  for (Parameter& parameter : kind.parameters)
    if (const auto found = space.find(fmt::format("{}_{}", kind.name, parameter.name)); found != space.end())
      parameter.values = found->second;
  if (const auto found = space.find(fmt::format("{}_least_rows", kind.name)); found != space.end())
    kind.least_rows = found->second.front();
}

TilePlan choose(Kind kind, const MatmulProblem& problem, const Arch& arch, const TileSpace& space,
                std::vector<Rejection>& rejected) {
  limit(kind, space);
  TilePlan base;
  base.name = kind.name;
  base.tokens_on_m = kind.tokens_on_m;
  base.least_rows = kind.least_rows;
  std::optional<TilePlan> best;
  for (const TilePlan& candidate : combinations(base, kind.parameters)) {
    const TilePlan tiles = completed(candidate, problem, arch);
    const std::string label = fmt::format("{}: {}", tiles.name, describe(tiles));
    if (std::string why = illegal_because(tiles, problem, arch); !why.empty()) {
      rejected.push_back({label, std::move(why)});
    } else if (!best || score(tiles, problem) < score(*best, problem)) {
      if (best) rejected.push_back({fmt::format("{}: {}", best->name, describe(*best)), "a slower model time"});
      best = tiles;
    } else {
      rejected.push_back({label, "no faster by the model"});
    }
  }
  if (!best)
    throw Error(ErrorCode::unsupported, fmt::format("grouped_matmul: no legal tiles '{}'; {}", kind.name,
                                                    rejected.empty() ? "" : rejected.back().reason));
  return *best;
}

// A name in tune.space that no kind of tiles has, whether this problem takes that kind or not.
void refuse_unknown(const MatmulProblem& problem, const TileSpace& space) {
  std::vector<std::string> names = {"wide_least_rows", "tall_least_rows"};
  const auto add = [&](std::string_view kind, const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) names.push_back(fmt::format("{}_{}", kind, parameter.name));
  };
  add("narrow", narrow_parameters());
  add("wide", wide_parameters(problem));
  add("tall", tall_parameters(problem));
  for (const auto& [name, values] : space)
    if (std::ranges::find(names, name) == names.end())
      throw Error(ErrorCode::unsupported,
                  fmt::format("/tune/space/{}: is no parameter of tiles{}; allowed {}", name,
                              did_you_mean(name, {names.begin(), names.end()}), fmt::join(names, ", ")));
}

// 3 stages of 24 KiB (27 with scales of mxfp8) and the staging fit in the 99 KiB of sm_86, 89 and 120.
TilePlan portable_tiles() {
  TilePlan tiles;
  tiles.name = "portable";
  tiles.portable = true;
  tiles.max_tokens = 64;
  tiles.widths = {16, 64};
  tiles.staging_rows = 32;
  tiles.stages = 3;
  return tiles;
}

std::int64_t portable_bytes(const TilePlan& tiles, const MatmulProblem& problem) {
  const std::int64_t element = problem.fuse_quantize ? 4 : bits(problem.output) / 8;  // as it is staged
  const std::int64_t row = tiles.tile_columns(problem) * element + 16;
  const std::int64_t stage = std::int64_t{tiles.weight_rows + tiles.max_tokens} * kSliceBytes;
  return tiles.stages * (stage + tiles.scale_bytes(problem)) + tiles.staging_rows * row;
}

}  // namespace

// The last box is as high as a whole share; the others make up the rest by their bits.
int TilePlan::box_heights() const {
  int heights = 0;
  for (int width : widths)
    if (width < max_tokens) heights |= width / cluster;
  return heights;
}

// Registers that the launch allocates for each thread: what 65536 leave, in eights, at most 168 where 384 threads ask.
int TilePlan::pool_registers() const { return std::min(168, 65536 / threads() / 8 * 8); }

// Loaders of scales keep some on their way; those that gather keep the rows of a tile.
int TilePlan::loader_registers() const {
  if (scale_warps > 0 || gather_warps > 0) return scale_registers;
  return warpgroups == 3 ? 32 : 40;
}

// The pool is what the launch allocates; what asked for more would wait for ever.
int TilePlan::multiplier_registers() const {
  const int left = pool_registers() * threads() - 128 * loader_registers();
  return std::min(232, left / (128 * warpgroups) / 8 * 8);
}

// A group of 128 columns takes 256 rows of b with gate and up, which would leave registers for two warpgroups only.
int TilePlan::joined_tiles(const MatmulProblem& problem) const {
  return problem.fuse_quantize && tokens_on_m && tile_columns(problem) == 64 ? 2 : 1;
}

// Gate's columns and up's as far apart as half a block begin in the middle of one.
int TilePlan::scale_chunks(const MatmulProblem& problem) const {
  if (!tokens_on_m || !problem.block_scales()) return 1;
  const bool apart = problem.gated && problem.halves;
  const int rows = apart ? weight_rows / 2 : weight_rows;  // of b, one after the other
  const int block = apart && problem.output_columns % 128 != 0 ? 64 : 128;
  if (block % rows == 0) return 1;
  return rows % block == 0 ? rows / block : weight_rows / 64;
}

// Rounded up to 16 bytes, so that stages stay aligned. With mxfp8 each row of a slice has four.
int TilePlan::scale_floats(const MatmulProblem& problem) const {
  if (problem.mx_scales()) return 4 * (max_tokens + weight_rows);
  if (!tokens_on_m) return max_tokens * problem.scales_per_token();
  return max_tokens + (scale_chunks(problem) * problem.scales_per_token() + 3) / 4 * 4;
}

std::int64_t TilePlan::scale_bytes(const MatmulProblem& problem) const {
  const bool staged = problem.mx_scales() || (problem.block_scales() && !portable);
  return staged ? std::int64_t{scale_floats(problem)} * 4 : 0;
}

std::int64_t TilePlan::staging_bytes(const MatmulProblem& problem) const {
  if (problem.fuse_quantize && !tokens_on_m)
    return std::int64_t{staging_rows} * (tile_columns(problem) + 4) * 4 / warpgroups;
  const std::int64_t row = warpgroup_columns(problem) * bits(problem.output) / 8;
  const std::int64_t staged = staging_rows * (store_rows > 0 ? staging_panels * kSliceBytes : row + 16);
  const std::int64_t parked = joined_tiles(problem) > 1 ? std::int64_t{staging_rows} * tile_columns(problem) * 4 : 0;
  return std::max(staged, parked);
}

std::int64_t TilePlan::shared_bytes(const MatmulProblem& problem) const {
  if (portable) return portable_bytes(*this, problem);
  return stages * stage_bytes(*this, problem) + warpgroups * warpgroup_bytes(*this, problem) + deal_bytes(*this);
}

std::string illegal_because(const TilePlan& tiles, const MatmulProblem& problem, const Arch& arch) {
  if (tiles.shared_bytes(problem) > arch.max_shared_bytes)
    return fmt::format("{} bytes of shared memory; {} has {}", tiles.shared_bytes(problem), arch.name,
                       arch.max_shared_bytes);
  if (tiles.stages < 3) return fmt::format("{} stages; at least 3 keep the tensor cores busy", tiles.stages);
  const int floats = !tiles.tokens_on_m && problem.promote && bits(problem.output) == 32 ? 16 : 0;  // places of each
  const int needed = accumulators(tiles, problem) + floats + 24;  // addresses, scales and counters
  if (needed > tiles.multiplier_registers())
    return fmt::format("about {} registers; {} are there", needed, tiles.multiplier_registers());
  if (problem.block_scales() && !tiles.tokens_on_m && tiles.weight_rows > 128 * problem.scales_per_token())
    return fmt::format("{} rows of b lie in several blocks of scales", tiles.weight_rows);
  if (const int columns = tiles.tile_columns(problem) * tiles.joined_tiles(problem);
      problem.fuse_quantize && columns != 128 && !(problem.mx_scales() && columns == 64))
    return fmt::format("{} columns of c, which are quantised {}128 at a time", tiles.tile_columns(problem),
                       problem.mx_scales() ? "64 or " : "");
  if (const int joined = tiles.joined_tiles(problem); joined > 1 && (tiles.cluster > 1 || tiles.raster % joined != 0))
    return fmt::format("cluster {} and raster {}; {} tiles that are quantised together need 1 and a multiple of {}",
                       tiles.cluster, tiles.raster, joined, joined);
  if (tiles.raster < 1) return fmt::format("raster {}; at least 1", tiles.raster);
  if (tiles.dealt != 0 && tiles.dealt != 1) return fmt::format("dealt {}; 0 or 1", tiles.dealt);
  if (tiles.dealt == 1 && !can_deal(problem)) return "dealt; all warps that load gather or bring scales of mxfp8";
  const std::int64_t tile_columns = tiles.tile_columns(problem);
  if (const int joined = tiles.joined_tiles(problem);
      (problem.output_columns + tile_columns - 1) / tile_columns % joined != 0)
    return fmt::format("{} columns of c are no whole number of {} joined tiles", problem.output_columns, joined);
  if (problem.gather_a && tiles.cluster > 1)
    return fmt::format("cluster {}; gathered rows are copied by each block for itself", tiles.cluster);
  if (tiles.max_tokens % tiles.token_step() != 0)
    return fmt::format("{} tokens; a multiple of {}", tiles.max_tokens, tiles.token_step());
  return "";
}

// Model of one multiprocessor, in cycles for a slice of K. Tensor cores multiply 4096 pairs of bytes a cycle (NVIDIA
// H100 white paper: 1979 TFLOP/s of fp8 at 1.83 GHz); L2 brings about 34 bytes a cycle (the prototype's best 128 x 128
// tiles, 7.6 TB/s); a float addition of a partial sum takes a lane,
// and half of them hide; mxfp8 has two float operations for each of four products.
double score(const TilePlan& tiles, const MatmulProblem& problem) {
  const double products = static_cast<double>(tiles.weight_rows) * tiles.max_tokens;
  const double tensor = products * kSliceBytes / 4096;
  const double l2 = (tiles.weight_rows + static_cast<double>(tiles.max_tokens) / tiles.cluster) * kSliceBytes / 34;
  const double promotion = problem.mx_scales() ? products * 8 / 128 : problem.promote ? products / 128 / 2 : 0;
  const double epilogue = products * 0.12;  // the prototype's stores: 17 % of a call at 12 slices, 2 % at 56
  const double shallow = tiles.stages < 4 ? 1.05 : 1;
  const auto slices = static_cast<double>(problem.depth_blocks());
  return (std::max(tensor + promotion, l2) * slices * shallow + epilogue) / (products * slices) * 1e6;
}

std::string_view dealt_because(const TilePlan& tiles, const MatmulProblem& problem) {
  if (tiles.dealt != 0) return "a warp counts, by the rows of all tiles, which cluster is free first";
  if (tiles.portable) return "clusters take tiles in turn: no warp is free to deal";
  if (tiles.least_rows == 0) return "clusters take tiles in turn: each brings as many weights";
  if (!can_deal(problem)) return "clusters take tiles in turn: all warps that load gather or bring scales of mxfp8";
  if (problem.promote && !tiles.tokens_on_m) return "clusters take tiles in turn: promoted sums are 1 to 4 % faster so";
  return "clusters take tiles in turn: biases of 32 bits leave no registers to deal, or tune.space says so";
}

bool takes_tensor_copies(const MatmulProblem& problem, const Arch& arch) {
  return arch.name == "sm_90a" && !(problem.gather_a && problem.mx_scales());
}

std::string describe(const TilePlan& tiles) {
  return fmt::format("{} weights x {} tokens, {} stages, cluster {}, staging {}, raster {}, {}", tiles.weight_rows,
                     tiles.max_tokens, tiles.stages, tiles.cluster, tiles.staging_rows, tiles.raster,
                     tiles.dealt != 0 ? "dealt" : "in turn");
}

std::vector<TilePlan> choose_tiles(const MatmulProblem& problem, const Arch& arch, const TileSpace& space,
                                   std::vector<Rejection>& rejected) {
  refuse_unknown(problem, space);
  if (!takes_tensor_copies(problem, arch)) return {portable_tiles()};
  std::vector<TilePlan> tiles;
  for (Kind& kind : kinds_of(problem)) tiles.push_back(choose(std::move(kind), problem, arch, space, rejected));
  return tiles;
}

}  // namespace moegen::grouped_matmul
