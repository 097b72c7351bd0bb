// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/matrix_descriptor.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "cpu/model/tensor_tile.hpp"

namespace moegen::cpu {
namespace {

constexpr std::uint32_t kPiece = 16, kDepth = 16;
constexpr std::uint32_t kSpans[] = {0, 128, 64, 32};  // by bits 62 and 63

constexpr std::uint32_t field(std::uint64_t bits, int shift) noexcept {
  return static_cast<std::uint32_t>(bits >> shift & 0x3FFF) << 4;
}

}  // namespace

MatrixDescriptor MatrixDescriptor::from(std::uint64_t bits) noexcept {
  return {.start = field(bits, 0),
          .leading = field(bits, 16),
          .stride = field(bits, 32),
          .span = kSpans[bits >> 62],
          .base_offset = static_cast<std::uint32_t>(bits >> 49 & 7)};
}

std::uint32_t MatrixDescriptor::k_contiguous(std::uint32_t row, std::uint32_t piece) const noexcept {
  const std::uint32_t pitch = span == 0 ? kPiece : span;
  const std::uint32_t next_piece = span == 0 ? leading : kPiece;
  return swizzle(start + row / 8 * stride + row % 8 * pitch + piece * next_piece, span);
}

std::uint32_t MatrixDescriptor::k_strided(std::uint32_t k, std::uint32_t piece) const noexcept {
  if (span == 0) return start + piece * stride + k / 8 * leading + k % 8 * kPiece;
  const std::uint32_t pieces = span / kPiece;
  return swizzle(start + piece % pieces * kPiece + piece / pieces * leading + k / 8 * stride + k % 8 * span, span);
}

std::string MatrixDescriptor::wrong(std::uint32_t extent, bool k_is_contiguous, std::uint32_t shared_bytes) const {
  if (base_offset != 0) return fmt::format("base offset {}; the model knows only 0", base_offset);
  if (span != 0 && start % (8 * span) >= span)
    return fmt::format("start {:#x} is inside the pattern of a {}-byte swizzle, which begins at multiples of {}", start,
                       span, 8 * span);
  const std::uint32_t groups = k_is_contiguous || span == 0 ? extent / 8 : (extent * 2 + span - 1) / span;
  const bool uses_stride = k_is_contiguous ? groups > 1 : span != 0 || groups > 1;
  const bool uses_leading = k_is_contiguous ? span == 0 : span == 0 || groups > 1;
  if (uses_stride && stride == 0) return "the stride byte offset is 0";
  if (uses_leading && leading == 0) return "the leading byte offset is 0";
  const std::uint32_t lines = k_is_contiguous ? extent : kDepth, pieces = k_is_contiguous ? 2 : extent / 8;
  std::uint32_t last = 0;
  for (std::uint32_t line = 0; line < lines; ++line)
    for (std::uint32_t piece = 0; piece < pieces; ++piece)
      last = std::max(last, k_is_contiguous ? k_contiguous(line, piece) : k_strided(line, piece));
  if (last + kPiece > shared_bytes)
    return fmt::format("it leads to {:#x}, past the end of shared memory at {:#x}", last, shared_bytes);
  return "";
}

}  // namespace moegen::cpu
