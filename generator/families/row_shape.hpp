// SPDX-License-Identifier: Apache-2.0
// How the kernels of rows (permute, activation, quantize) cut rows into blocks, what they write into their plans for
// that, and what they ask of their arguments: the host side of templates/core/rows.cuh.
#pragma once

#include <cstdint>

#include <moegen/config.hpp>
#include <moegen/family.hpp>

#include "plan_builder.hpp"

namespace moegen {

/// Most rows of one launch: row numbers are 32-bit on the device.
inline constexpr std::int64_t kMaxRows = (std::int64_t{1} << 31) - 1;

/// What a kernel stores.
struct RowFormat {
  std::int64_t width = 0;         ///< elements of a row
  Scheme scheme = Scheme::none;   ///< none: rows keep `dtype`
  Dtype dtype = Dtype::bfloat16;  ///< of what is read, and of what is stored unquantised
  bool paired = false;            ///< two rows are read for one that is stored: gate and up
  bool plain = false;             ///< a thread keeps nothing but the elements that it encodes
};

/// The decisions of rows.cuh.
struct RowShape {
  std::int64_t vector = 0;   ///< elements that a thread encodes at a time
  std::int64_t vectors = 1;  ///< of a thread
  std::int64_t team = 0;     ///< threads of a slice of a row
  std::int64_t rows_per_block = 1, blocks_per_row = 1;
  bool row_kept = true;
  int threads = 0;
  std::int64_t resident = 1;  ///< blocks that a multiprocessor must have registers for
  std::int64_t waves = 0;     ///< of blocks that a grid has at most
};

/// `whole_warps`: teams must be whole warps. `most_vectors`: vectors that a thread may take of a wide row.
RowShape choose_row_shape(const RowFormat& format, bool whole_warps, std::int64_t most_vectors, const Arch& arch);

/// width, scheme_kind, quantised, output_dtype, column_scales, floor, scale_dtype and the shape.
void add_rows(PlanBuilder& plan, const ConfigFields& fields, const RowFormat& format, const RowShape& shape,
              std::string_view width_pointer);

/// An entry of `shape.threads` threads and the shared memory of a row's maximum.
EntryPlan rows_entry(std::string_view name, const RowShape& shape, const Arch& arch);

/// Slots of LaunchConstants that the checks below and grids read; a family's own begin at kFirstOwn.
struct RowConstants {
  enum : int {
    kRowsPerBlock,
    kBlocksPerRow,
    kBlocksPerSm,
    kResidentBlocks,
    kScaleBytes,
    kColumnScales,
    kGlobalScale,
    kFirstOwn
  };
};

void set_row_constants(LaunchConstants& values, const Plan& plan);

/// Blocks for `num_rows` rows: as many as the device keeps busy with; the kernel's loop does the rest.
std::uint32_t row_blocks(const LaunchConstants& values, const LaunchDevice& device, std::int64_t num_rows) noexcept;

/// Pointers that all three families have. Null if they can be launched with.
struct RowPointers {
  const void* rows;
  const void* scales;
  const void* input;
  const void* global_scale;
  std::int64_t num_rows, scales_stride;
};
const char* check_row_pointers(const LaunchConstants& values, const RowPointers& pointers) noexcept;

}  // namespace moegen
