// SPDX-License-Identifier: Apache-2.0
// Compiled with optimisation in every build (runtime/cpu/CMakeLists.txt): a matrix product on the CPU target is this.
#include "cpu/model/tensor_core.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace moegen::cpu {
namespace {

// Values of `Mantissa` explicit bits and bias `Bias`; where `has_infinity`, the largest exponent is special, else only
// the largest magnitude is, a NaN.
float value_of_byte(std::uint32_t bits, std::uint32_t mantissa, std::uint32_t bias, bool has_infinity) noexcept {
  const std::uint32_t magnitude = bits & 0x7F, special = 0x7Fu >> mantissa << mantissa;
  float value;
  if (has_infinity && magnitude >= special)
    value = std::bit_cast<float>(magnitude == special ? 0x7F800000u : 0x7FFFFFFFu);
  else if (!has_infinity && magnitude == 0x7F)
    value = std::bit_cast<float>(0x7FFFFFFFu);
  else
    value = std::bit_cast<float>(magnitude << (23 - mantissa)) * std::bit_cast<float>((254 - bias) << 23);
  return bits & 0x80 ? -value : value;
}

using ByteTable = std::array<float, 256>;

ByteTable make_table(std::uint32_t mantissa, std::uint32_t bias, bool has_infinity) noexcept {
  ByteTable table;
  for (std::uint32_t i = 0; i < table.size(); ++i) table[i] = value_of_byte(i, mantissa, bias, has_infinity);
  return table;
}

void widen_bytes(const unsigned char* source, std::uint32_t count, const ByteTable& table, float* values) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) values[i] = table[source[i]];
}

float value_of_float16(std::uint32_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000) << 16, magnitude = bits & 0x7FFF;
  float value = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>((254u - 15u) << 23);
  if (magnitude >= 0x7C00) value = std::bit_cast<float>(magnitude << 13 | 0x7F800000u);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

// A block of 4 rows by 8 * Vectors columns stays in registers over all of K.
using Vector = float __attribute__((vector_size(32)));

inline __attribute__((always_inline)) void load(Vector& value, const float* from) noexcept {
  std::memcpy(&value, from, sizeof value);
}

template <std::uint32_t Vectors>
inline __attribute__((always_inline)) void multiply_block(const Product& p, std::uint32_t row,
                                                          std::uint32_t column) noexcept {
  Vector sum[4][Vectors];
  for (std::uint32_t i = 0; i < 4; ++i)
    for (std::uint32_t v = 0; v < Vectors; ++v) load(sum[i][v], p.c + std::size_t{row + i} * p.width + column + 8 * v);
  for (std::uint32_t k = 0; k < p.depth; ++k) {
    for (std::uint32_t v = 0; v < Vectors; ++v) {
      Vector b;
      load(b, p.b + std::size_t{k} * p.width + column + 8 * v);
      for (std::uint32_t i = 0; i < 4; ++i) sum[i][v] += p.a[(row + i) * p.depth + k] * b;
    }
  }
  for (std::uint32_t i = 0; i < 4; ++i)
    for (std::uint32_t v = 0; v < Vectors; ++v)
      std::memcpy(p.c + std::size_t{row + i} * p.width + column + 8 * v, &sum[i][v], sizeof(Vector));
}

inline __attribute__((always_inline)) void multiply_all(const Product& p) noexcept {
  for (std::uint32_t row = 0; row < p.rows; row += 4) {
    std::uint32_t column = 0;
    for (; column + 16 <= p.width; column += 16) multiply_block<2>(p, row, column);
    if (column < p.width) multiply_block<1>(p, row, column);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void multiply_avx2(const Product& product) noexcept { multiply_all(product); }
#endif

}  // namespace

std::uint32_t bytes_of(MoegenCpuElement element) noexcept {
  return element == MOEGEN_CPU_BFLOAT16 || element == MOEGEN_CPU_FLOAT16 ? 2 : 1;
}

void widen_elements(const void* source, std::uint32_t count, MoegenCpuElement element, float* values) noexcept {
  static const ByteTable e4m3 = make_table(3, 7, false), e5m2 = make_table(2, 15, true);
  const auto* bytes = static_cast<const unsigned char*>(source);
  if (element == MOEGEN_CPU_E4M3) return widen_bytes(bytes, count, e4m3, values);
  if (element == MOEGEN_CPU_E5M2) return widen_bytes(bytes, count, e5m2, values);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes + std::size_t{2} * i, 2);
    values[i] = element == MOEGEN_CPU_FLOAT16 ? value_of_float16(bits)
                                              : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
}

void multiply(const Product& product) noexcept {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2) return multiply_avx2(product);
#endif
  multiply_all(product);
}

}  // namespace moegen::cpu
