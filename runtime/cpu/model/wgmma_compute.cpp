// SPDX-License-Identifier: Apache-2.0
// What one wgmma does once it takes place: operands out of shared memory, product, accumulators.
#include <algorithm>

#include "cpu/model/block.hpp"
#include "cpu/model/warpgroup.hpp"

namespace moegen::cpu {
namespace {

constexpr std::uint32_t kPiece = 16;

enum : std::uint32_t { kAccumulate = 1, kNegateA = 2, kNegateB = 4, kTransposeA = 8, kTransposeB = 16 };

/// The place of accumulator `index` of `thread` in the 64 x width matrix.
std::size_t place(std::uint32_t thread, std::uint32_t index, std::uint32_t width) noexcept {
  const std::uint32_t row = thread / 32 * 16 + thread % 32 / 4 + index / 2 % 2 * 8;
  return std::size_t{row} * width + std::size_t{index / 4} * 8 + std::size_t{thread % 4} * 2 + index % 2;
}

/// Reads an operand from shared memory: calls set(row, k, value) for each element.
template <class Set>
void read_operand(const Block& block, const MatrixDescriptor& from, std::uint32_t extent, MoegenCpuElement element,
                  bool transposed, const CheckedActor& reader, Set set) {
  const std::uint32_t per_piece = kPiece / bytes_of(element), depth = 2 * per_piece;
  const std::uint32_t lines = transposed ? depth : extent, pieces = transposed ? extent / per_piece : 2;
  float values[kPiece];
  reader.set_swizzle(from.span);
  for (std::uint32_t line = 0; line < lines; ++line) {
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      const char* at = block.shared + (transposed ? from.k_strided(line, piece) : from.k_contiguous(line, piece));
      reader.read(at, kPiece);
      widen_elements(at, per_piece, element, values);
      for (std::uint32_t i = 0; i < per_piece; ++i) {
        const std::uint32_t along = piece * per_piece + i;
        transposed ? set(along, line, values[i]) : set(line, along, values[i]);
      }
    }
  }
}

/// Unpacks A from the registers: of each thread rows l / 4 and + 8, 4 bytes of K at 4 * (l % 4) and 16 further.
void read_a_registers(const WgmmaOperation& operation, std::uint32_t depth, float* a) {
  const std::uint32_t per_register = 4 / bytes_of(operation.shape.element);
  for (std::uint32_t thread = 0; thread < kWarpgroupSize; ++thread) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
      const std::uint32_t k = (i / 2 * 4 + thread % 4) * per_register;
      widen_elements(&operation.a_registers[thread][i], per_register, operation.shape.element,
                     a + std::size_t{row} * depth + k);
    }
  }
}

void negate(float* values, std::size_t count) {
  std::transform(values, values + count, values, [](float value) { return -value; });
}

}  // namespace

void Accumulators::take(std::uint32_t thread, float* from) {
  registers[thread] = from;
  for (std::uint32_t i = 0; i < width / 2; ++i) values[place(thread, i, width)] = from[i];
}

void Accumulators::give_back() const {
  for (std::uint32_t thread = 0; thread < kWarpgroupSize; ++thread)
    for (std::uint32_t i = 0; registers[thread] != nullptr && i < width / 2; ++i)
      registers[thread][i] = values[place(thread, i, width)];
}

void perform_wgmma(Warpgroup& warpgroup, const WgmmaOperation& operation, const CheckedActor& reader) {
  const WgmmaShape& shape = operation.shape;
  const std::uint32_t depth = 32 / bytes_of(shape.element), width = shape.width;
  warpgroup.a.resize(std::size_t{kWgmmaRows} * depth);
  warpgroup.b.resize(std::size_t{depth} * width);
  float *const a = warpgroup.a.data(), *const b = warpgroup.b.data();
  const Block& block = *warpgroup.block;
  if (shape.a_in_registers)
    read_a_registers(operation, depth, a);
  else
    read_operand(block, MatrixDescriptor::from(shape.a), kWgmmaRows, shape.element, shape.flags & kTransposeA, reader,
                 [=](std::uint32_t row, std::uint32_t k, float value) { a[row * depth + k] = value; });
  read_operand(block, MatrixDescriptor::from(shape.b), width, shape.element, shape.flags & kTransposeB, reader,
               [=](std::uint32_t column, std::uint32_t k, float value) { b[k * width + column] = value; });
  if (shape.flags & kNegateA) negate(a, warpgroup.a.size());
  if (shape.flags & kNegateB) negate(b, warpgroup.b.size());
  std::vector<float>& c = operation.accumulators->values;
  if (!(shape.flags & kAccumulate)) std::fill(c.begin(), c.end(), 0.0f);
  multiply({.a = a, .b = b, .c = c.data(), .rows = kWgmmaRows, .width = width, .depth = depth});
}

}  // namespace moegen::cpu
