// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/tensor_tile.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace moegen::cpu {

TensorTile::TensorTile(const TensorMapLayout& map, const int* coordinates) noexcept : map_(map) {
  for (std::uint32_t i = 0; i < map.rank; ++i) start_[i] = coordinates[i];
  row_bytes_ = static_cast<std::uint32_t>(map.box[0]) * map.element_bytes;
  pitch_ = std::max<std::uint32_t>(row_bytes_, map.span);
  for (std::uint32_t i = 1; i < map.rank; ++i) num_rows_ *= map.box[i];
}

TileRow TensorTile::row(std::uint32_t index) const noexcept {
  TileRow row;
  row.offset = index * pitch_;
  std::uint64_t global = map_.base;
  for (std::uint32_t i = 1; i < map_.rank; ++i) {
    const std::int64_t at = start_[i] + index % map_.box[i];
    index /= map_.box[i];
    if (at < 0 || at >= static_cast<std::int64_t>(map_.dims[i])) return row;
    global += static_cast<std::uint64_t>(at) * map_.strides[i - 1];
  }
  const std::int64_t width = map_.box[0], begin = std::clamp<std::int64_t>(-start_[0], 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(static_cast<std::int64_t>(map_.dims[0]) - start_[0], begin, width);
  if (begin == end) return row;
  row.first = static_cast<std::uint32_t>(begin) * map_.element_bytes;
  row.bytes = static_cast<std::uint32_t>(end - begin) * map_.element_bytes;
  row.global =
      reinterpret_cast<const char*>(global + static_cast<std::uint64_t>(start_[0] + begin) * map_.element_bytes);
  return row;
}

std::string wrong_with_map(const TensorMapLayout& map, unsigned int rank) {
  if (map.signature != TensorMapLayout::kSignature)
    return "the tensor map is none of the CPU target: it was not encoded, or encoded for a GPU";
  if (map.rank != rank)
    return fmt::format("a copy of {} coordinates with a tensor map of {} dimensions", rank, map.rank);
  return "";
}

}  // namespace moegen::cpu
