// SPDX-License-Identifier: Apache-2.0
#include "families/row_shape.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "config_words.hpp"
#include "families/activation_fields.hpp"
#include "families/alignment.hpp"

namespace moegen {
namespace {

constexpr std::int64_t kWarpSize = 32;
constexpr std::int64_t kBlock = 256;  // threads of a block that holds several rows, or a slice of one
constexpr std::int64_t kNarrow =
    128;  // and of one whose rows are narrow: few rows then spread over more multiprocessors
constexpr std::int64_t kMostTeam = 512;        // of a whole row,
constexpr std::int64_t kMostPlainTeam = 1024;  // where threads keep nothing but one vector,
constexpr std::int64_t kWideTeam = 128;        // and of one that is read twice
constexpr std::int64_t kFewWaves = 4;    // of blocks that read 32 bytes a thread at a time: a loop saves their starts
constexpr std::int64_t kManyWaves = 32;  // and of others: then an uneven last wave costs little (docs/kernels.md)
constexpr std::int64_t kAnyRegisters = 255;      // the most that a thread has
constexpr std::int64_t kRegisterFile = 1 << 16;  // of a multiprocessor, sm_80 up (CUDA C++ Programming Guide)
constexpr std::int64_t kMostKept = 4;  // vectors of a thread that a whole row is kept in: 64 registers of floats

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

bool is_fp4(Scheme scheme) { return scheme == Scheme::mxfp4 || scheme == Scheme::nvfp4; }

Dtype output_dtype(const RowFormat& format) {
  if (!quantises_rows(format.scheme)) return format.dtype;
  return is_fp4(format.scheme) ? Dtype::float4_e2m1fn : Dtype::float8_e4m3fn;
}

// Elements that a thread encodes at a time: 16 bytes of output, or of input and more where codes have four bits: twice
// as many would leave half of each sector that a warp asks for to its next load.
std::int64_t vector_of(const RowFormat& format) {
  return is_fp4(format.scheme) ? 16 : 128 / bits(output_dtype(format));
}

// Neighbouring lanes that find the scale of a group together.
std::int64_t lanes_of(Scheme scheme, std::int64_t vector) {
  if (scheme == Scheme::block128) return 128 / vector;
  return scheme == Scheme::mxfp8 || scheme == Scheme::mxfp4 ? 32 / vector : 1;
}

// A whole row is one team's: of as many threads as it has vectors, then of more vectors a thread, and a row that is
// wider still is read twice. Two vectors of a narrow row fit one warp, which needs no barrier.
void shape_whole_row(RowShape& shape, std::int64_t vectors, bool plain) {
  if (vectors <= 2 * kWarpSize) {
    shape.vectors = divide_up(vectors, kWarpSize);
    shape.team = kWarpSize;
    shape.rows_per_block = kNarrow / kWarpSize;
    return;
  }
  shape.vectors = plain && vectors <= kMostPlainTeam ? 1 : divide_up(vectors, kMostTeam);
  shape.row_kept = shape.vectors <= kMostKept;
  if (!shape.row_kept) shape.vectors = 1;
  shape.team = shape.row_kept ? round_up(divide_up(vectors, shape.vectors), kWarpSize) : kWideTeam;
}

std::int64_t idle_threads(std::int64_t vectors, std::int64_t threads) { return round_up(vectors, threads) - vectors; }

// Rows of a block: the fewest that leave at most a sixteenth of its warps' lanes idle, or the least idle ones.
std::int64_t choose_rows(std::int64_t team) {
  std::int64_t best = 1;
  for (std::int64_t rows = 1; rows * team <= 2 * kBlock; ++rows) {
    const std::int64_t used = rows * team, idle = idle_threads(used, kWarpSize);
    if (used + idle < kNarrow) continue;
    if (16 * idle <= used) return rows;
    if (idle * best * team < idle_threads(best * team, kWarpSize) * used || best * team < kNarrow) best = rows;
  }
  return best;
}

// Threads of a slice: the fewest idle ones, of equals the most threads.
std::int64_t choose_team(std::int64_t vectors) {
  std::int64_t best = kNarrow;
  for (std::int64_t threads = kNarrow; threads <= kBlock; threads += kWarpSize)
    if (idle_threads(vectors, threads) <= idle_threads(vectors, best)) best = threads;
  return best;
}

void shape_slices(RowShape& shape, std::int64_t vectors, std::int64_t lanes, std::int64_t most_vectors) {
  if (vectors >= kNarrow) shape.vectors = most_vectors;
  const std::int64_t steps = divide_up(vectors, shape.vectors);
  if (steps <= kBlock) {
    shape.team = round_up(steps, lanes);
    shape.rows_per_block = choose_rows(shape.team);
    return;
  }
  shape.team = choose_team(steps);
  shape.blocks_per_row = divide_up(vectors, shape.vectors * shape.team);
}

// Registers of a thread that leave enough loads in flight; fewer where threads also wait for a barrier or for special
// functions. nvfp4 would spill where threads have more to keep: the activation, or their place among several rows.
std::int64_t most_registers(const RowFormat& format, const RowShape& shape) {
  if (format.scheme == Scheme::nvfp4 && (!format.plain || shape.rows_per_block > 1)) return kAnyRegisters;
  return format.scheme == Scheme::rowwise || (format.paired && format.scheme == Scheme::none) ? 32 : 40;
}

// Without a bound the compiler takes 48 registers and more, to have many instructions between a value and its use. Only
// where that was measured, on Hopper, and not where threads have more to keep: floats of 32 bits, several vectors, a
// row that is read twice.
std::int64_t resident_blocks(const RowFormat& format, const RowShape& shape, const Arch& arch) {
  if (!arch.name.starts_with("sm_90") || shape.vectors > 1 || !shape.row_kept || bits(format.dtype) == 32) return 1;
  const std::int64_t threads =
      std::min<std::int64_t>(kRegisterFile / most_registers(format, shape), arch.max_threads_per_sm);
  return std::max<std::int64_t>(1, threads / shape.threads);
}

// Whether blocks without a loop are better. Measured: docs/kernels.md.
bool waits_for_loads(const RowFormat& format, const RowShape& shape) {
  if (format.paired || format.scheme == Scheme::rowwise || format.scheme == Scheme::none) return true;
  return shape.blocks_per_row > 1 && !is_fp4(format.scheme);
}

bool has_scales(Scheme scheme) { return quantises_rows(scheme) && scheme != Scheme::tensor; }

std::int64_t scale_bytes(const Plan& plan) {
  const std::string& scheme = plan.text("scheme_kind");
  if (scheme == "none" || scheme == "tensor") return 0;
  return scheme == "rowwise" || plan.text("scale_dtype") == "float32" ? 4 : 1;
}

}  // namespace

RowShape choose_row_shape(const RowFormat& format, bool whole_warps, std::int64_t most_vectors, const Arch& arch) {
  RowShape shape;
  shape.vector = vector_of(format);
  const std::int64_t vectors = divide_up(format.width, shape.vector);
  if (format.scheme == Scheme::rowwise)
    shape_whole_row(shape, vectors, format.plain);
  else
    shape_slices(shape, vectors, whole_warps ? kWarpSize : lanes_of(format.scheme, shape.vector), most_vectors);
  shape.threads = static_cast<int>(round_up(shape.team * shape.rows_per_block, kWarpSize));
  shape.resident = resident_blocks(format, shape, arch);
  shape.waves = waits_for_loads(format, shape) ? kManyWaves : kFewWaves;
  return shape;
}

void add_rows(PlanBuilder& plan, const ConfigFields& fields, const RowFormat& format, const RowShape& shape,
              std::string_view width_pointer) {
  const bool quantised = quantises_rows(format.scheme);
  plan.field("width", format.width, width_pointer);
  plan.dtype("activation_dtype", format.dtype, "/dtypes/activation");
  if (quantised)
    plan.field("scheme_kind", std::string(to_word(format.scheme)), "/quantization/scheme");
  else
    plan.derived("scheme_kind", std::string("none"), "rows keep their dtype");
  plan.derived("quantised", quantised, quantised ? "rows are codes and scales" : "rows keep their dtype");
  if (!quantised) plan.dtype("output_dtype", format.dtype, "/dtypes/activation");
  if (has_scales(format.scheme)) add_quantiser(plan, fields);
  plan.field("column_scales", quantised && fields.quantization.scale_layout == ScaleLayout::column,
             "/quantization/scale_layout");
  plan.derived("vector", shape.vector, "elements that a thread encodes at a time");
  plan.derived("vectors", shape.vectors, "vectors of a thread in a row");
  plan.derived("team", shape.team, "threads of a row, or of a slice of it");
  plan.derived("rows_per_block", shape.rows_per_block, "teams of a block");
  plan.derived("blocks_per_row", shape.blocks_per_row, "slices that cover a row");
  plan.host("waves", shape.waves, "blocks of a grid at most, in times of what a device holds");
  plan.host("min_blocks", shape.resident, "blocks that a multiprocessor holds at least, which bounds registers");
  plan.derived("row_kept", shape.row_kept,
               shape.row_kept ? "registers hold what a team reads" : "the row is too wide for registers");
}

EntryPlan rows_entry(std::string_view name, const RowShape& shape, const Arch& arch) {
  EntryPlan entry;
  entry.name = name;
  entry.variant = "rows";
  entry.threads = shape.threads;
  entry.dynamic_shared_bytes = static_cast<int>(2 * 4 * round_up(shape.team, kWarpSize) / kWarpSize);
  entry.dependent_launch = arch.dependent_launch;
  return entry;
}

void set_row_constants(LaunchConstants& values, const Plan& plan) {
  values[RowConstants::kRowsPerBlock] = plan.integer("rows_per_block");
  values[RowConstants::kBlocksPerRow] = plan.integer("blocks_per_row");
  values[RowConstants::kResidentBlocks] = plan.arch.max_threads_per_sm / plan.entries.front().threads;
  values[RowConstants::kBlocksPerSm] = plan.integer("waves") * values[RowConstants::kResidentBlocks];
  values[RowConstants::kScaleBytes] = scale_bytes(plan);
  values[RowConstants::kColumnScales] = plan.boolean("column_scales") ? 1 : 0;
  const std::string& scheme = plan.text("scheme_kind");
  values[RowConstants::kGlobalScale] = scheme == "tensor" || scheme == "nvfp4" ? 1 : 0;
}

std::uint32_t row_blocks(const LaunchConstants& values, const LaunchDevice& device, std::int64_t num_rows) noexcept {
  const std::int64_t per_block = values[RowConstants::kRowsPerBlock];
  const std::int64_t wanted = (num_rows + per_block - 1) / per_block * values[RowConstants::kBlocksPerRow];
  return static_cast<std::uint32_t>(std::min(wanted, values[RowConstants::kBlocksPerSm] * device.num_sms));
}

namespace {

const char* check_scales(const LaunchConstants& values, const RowPointers& pointers) noexcept {
  const std::int64_t bytes = values[RowConstants::kScaleBytes];
  if (bytes == 0 && pointers.scales) return "scales is given, but the rows of this kernel have none; it must be null";
  if (bytes == 0) return nullptr;
  if (!pointers.scales) return "scales is null; it takes the scales of the rows (quantize::Args says their shape)";
  if (misaligned(pointers.scales, bytes)) return "scales is not aligned to its element";
  if (values[RowConstants::kColumnScales] == 0) return nullptr;
  if (misaligned(pointers.scales, 16)) return "scales of the column layout are not aligned to 16 bytes";
  if (pointers.scales_stride == 0) return nullptr;
  if (pointers.scales_stride < pointers.num_rows) return "scales_stride is less than num_rows; 0 rounds num_rows up";
  if (pointers.scales_stride * bytes % 16 != 0) return "scales_stride is no multiple of 16 bytes; 0 rounds num_rows up";
  return nullptr;
}

}  // namespace

const char* check_row_pointers(const LaunchConstants& values, const RowPointers& pointers) noexcept {
  if (!pointers.rows) return "rows is null; it takes the rows that the kernel writes";
  if (misaligned(pointers.rows, 16)) return "rows is not aligned to 16 bytes";
  if (misaligned(pointers.input, 16)) return "the rows that are read are not aligned to 16 bytes";
  const bool global = values[RowConstants::kGlobalScale] != 0;
  if (global && !pointers.global_scale)
    return "global_scale is null; it takes float32 [1], the scale (tensor) or the factor of all scales (nvfp4)";
  if (!global && pointers.global_scale)
    return "global_scale is given, but only the schemes tensor and nvfp4 have one; it must be null";
  if (misaligned(pointers.global_scale, 4)) return "global_scale is not aligned to 4 bytes";
  return check_scales(values, pointers);
}

}  // namespace moegen
