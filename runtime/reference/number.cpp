// SPDX-License-Identifier: Apache-2.0
#include "reference/number.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace moegen::reference {
namespace {

// A binary floating-point format by its widths; IEEE 754 otherwise.
struct Format {
  int exponent_bits, fraction_bits;
  int min_exponent() const { return 2 - (1 << (exponent_bits - 1)); }  // of the smallest normal number
  int max_exponent() const { return (1 << (exponent_bits - 1)) - 1; }
};

Format format_of(Dtype dtype) {
  if (dtype == Dtype::float8_e4m3fn) return {4, 3};
  if (dtype == Dtype::bfloat16) return {8, 7};
  if (dtype == Dtype::float16) return {5, 10};
  return {8, 23};
}

// Distance of neighbours at `value`, subnormal numbers included.
double ulp(const Format& format, double value) {
  const int exponent = value == 0 ? format.min_exponent() : std::max(std::ilogb(value), format.min_exponent());
  return std::ldexp(1.0, exponent - format.fraction_bits);
}

double decode16(const Format& format, std::uint16_t bits) {
  const int exponent = bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) return fraction ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, format.min_exponent() - format.fraction_bits);
  const int scale = exponent - format.max_exponent() - format.fraction_bits;
  return sign * std::ldexp(fraction + (1 << format.fraction_bits), scale);
}

std::uint16_t encode16(const Format& format, double value) {
  const auto infinity = static_cast<std::uint16_t>(((1 << format.exponent_bits) - 1) << format.fraction_bits);
  if (std::isnan(value)) return 0x7FFF;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double step = ulp(format, std::min(std::abs(value), std::ldexp(1.0, format.max_exponent())));
  const double rounded = std::nearbyint(std::abs(value) / step) * step;
  if (rounded >= std::ldexp(1.0, format.max_exponent() + 1)) return sign | infinity;
  if (rounded < std::ldexp(1.0, format.min_exponent()))  // zero or subnormal: a multiple of the smallest step
    return static_cast<std::uint16_t>(sign | static_cast<int>(rounded / ulp(format, 0)));
  const int exponent = std::ilogb(rounded);
  const int fraction =
      static_cast<int>(std::ldexp(rounded, format.fraction_bits - exponent)) & ((1 << format.fraction_bits) - 1);
  return static_cast<std::uint16_t>(sign | (exponent + format.max_exponent()) << format.fraction_bits | fraction);
}

// All float16 numbers: references read hundreds of millions of them.
const std::array<double, 65536>& float16_values() {
  static const std::array<double, 65536> values = [] {
    std::array<double, 65536> all{};
    for (std::size_t bits = 0; bits < all.size(); ++bits)
      all[bits] = decode16(format_of(Dtype::float16), static_cast<std::uint16_t>(bits));
    return all;
  }();
  return values;
}

// float8_e4m3fn is IEEE-like with bias 7, but has no infinity: its last exponent holds numbers up to 448 and one NaN.
constexpr double kLargestE4m3 = 448;

double decode_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const double sign = bits & 0x80 ? -1.0 : 1.0;
  if ((bits & 0x7F) == 0x7F) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -9);
  return sign * std::ldexp(fraction + 8, exponent - 10);
}

std::uint8_t encode_e4m3(double value) {
  if (std::isnan(value)) return 0x7F;
  const int sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::min(std::abs(value), kLargestE4m3), step = ulp({4, 3}, magnitude);
  const double rounded = std::nearbyint(magnitude / step) * step;
  if (rounded < std::ldexp(1.0, -6)) return static_cast<std::uint8_t>(sign | static_cast<int>(std::ldexp(rounded, 9)));
  const int exponent = std::ilogb(rounded), fraction = static_cast<int>(std::ldexp(rounded, 3 - exponent)) & 7;
  return static_cast<std::uint8_t>(sign | (exponent + 7) << 3 | fraction);
}

double decode_e8m0(std::uint8_t bits) { return bits == 0xFF ? std::nan("") : std::ldexp(1.0, bits - 127); }

std::uint8_t encode_e8m0(double value) {
  if (std::isnan(value)) return 0xFF;
  if (std::isinf(value)) return 0xFE;
  if (value == 0) return 0;
  const int below = std::ilogb(value);
  const int exponent = std::ldexp(1.0, below) < std::abs(value) ? below + 1 : below;
  return static_cast<std::uint8_t>(std::clamp(exponent + 127, 0, 0xFE));
}

const std::array<double, 256>& e4m3_values() {
  static const std::array<double, 256> values = [] {
    std::array<double, 256> all{};
    for (std::size_t bits = 0; bits < all.size(); ++bits) all[bits] = decode_e4m3(static_cast<std::uint8_t>(bits));
    return all;
  }();
  return values;
}

template <class T>
T read(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void write(void* data, std::size_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

double load(Dtype dtype, const void* data, std::size_t index) {
  if (dtype == Dtype::float32) return read<float>(data, index);
  if (dtype == Dtype::float8_e4m3fn) return e4m3_values()[read<std::uint8_t>(data, index)];
  if (dtype == Dtype::float8_e8m0fnu) return decode_e8m0(read<std::uint8_t>(data, index));
  const auto bits = read<std::uint16_t>(data, index);
  if (dtype == Dtype::bfloat16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  return float16_values()[bits];
}

void store(Dtype dtype, void* data, std::size_t index, double value) {
  if (dtype == Dtype::float32) return write(data, index, static_cast<float>(value));
  if (dtype == Dtype::float8_e4m3fn) return write(data, index, encode_e4m3(value));
  if (dtype == Dtype::float8_e8m0fnu) return write(data, index, encode_e8m0(value));
  write(data, index, encode16(format_of(dtype), value));
}

double rounded_to(Dtype dtype, double value) {
  std::uint32_t stored = 0;
  store(dtype, &stored, 0, value);
  return load(dtype, &stored, 0);
}

double half_ulp(Dtype dtype, double value) { return std::isfinite(value) ? ulp(format_of(dtype), value) / 2 : 0; }

std::int64_t load_integer(Dtype dtype, const void* data, std::size_t index) {
  switch (dtype) {
    case Dtype::uint8: return read<std::uint8_t>(data, index);
    case Dtype::uint16: return read<std::uint16_t>(data, index);
    case Dtype::uint32: return read<std::uint32_t>(data, index);
    case Dtype::int64: return read<std::int64_t>(data, index);
    default: return read<std::int32_t>(data, index);
  }
}

void store_integer(Dtype dtype, void* data, std::size_t index, std::int64_t value) {
  switch (dtype) {
    case Dtype::uint8: return write(data, index, static_cast<std::uint8_t>(value));
    case Dtype::uint16: return write(data, index, static_cast<std::uint16_t>(value));
    case Dtype::uint32: return write(data, index, static_cast<std::uint32_t>(value));
    case Dtype::int64: return write(data, index, value);
    default: return write(data, index, static_cast<std::int32_t>(value));
  }
}

}  // namespace moegen::reference
