// SPDX-License-Identifier: Apache-2.0
// Conversions of the CPU target against an independent definition: the nearest of all values of the type. Every
// MOEGEN_CONVERSION_STEP-th float, every one with 1.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "cpu/model/calls.hpp"

#define MOEGEN_TARGET_CPU
#define __device__
#define __forceinline__ inline
#include "../../templates/core/narrow.cuh"

namespace {

std::uint64_t step() {
  const char* text = std::getenv("MOEGEN_CONVERSION_STEP");
  return text == nullptr ? 4093 : std::strtoull(text, nullptr, 10);
}

/// A float format, defined by what IEEE 754 says of fields.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
  unsigned nan;      ///< the canonical one
  unsigned largest;  ///< finite, or infinity where too large values go there

  double value(unsigned magnitude) const {
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const double fraction = std::ldexp(magnitude & ((1u << mantissa_bits) - 1), -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  }
};

/// All magnitudes of a format, ascending, and the nearest of them by search.
class Nearest {
 public:
  explicit Nearest(const Format& format) : format_(format) {
    for (unsigned magnitude = 0; magnitude <= format.largest; ++magnitude) values_.push_back(format.value(magnitude));
  }
  unsigned of(float value) const {
    if (std::isnan(value)) return format_.nan;
    const double magnitude = std::fabs(static_cast<double>(value));
    const unsigned sign = std::signbit(value) ? 1u << (format_.exponent_bits + format_.mantissa_bits) : 0;
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return sign | format_.largest;
    const auto index = static_cast<unsigned>(above - values_.begin());
    if (index == 0 || *above == magnitude) return sign | index;
    const double middle = (values_[index - 1] + values_[index]) / 2;
    const bool up = magnitude > middle || (magnitude == middle && index % 2 == 0);
    return sign | (up ? index : index - 1);
  }

 private:
  Format format_;
  std::vector<double> values_;
};

constexpr Format kE4m3{4, 3, 7, false, 0x7F, 0x7E}, kE5m2{5, 2, 15, true, 0x7F, 0x7B}, kE2m1{2, 1, 1, false, 7, 7};
// Infinity follows the largest finite value as if it were one more step, which is where rounding to it begins.
constexpr Format kFloat16{5, 10, 15, true, 0x7FFF, 0x7C00}, kBfloat16{8, 7, 127, true, 0x7FFF, 0x7F80};

unsigned to_e4m3(float value) { return moegen::pack_e4m3(value, 0); }
unsigned to_e5m2(float value) { return moegen::pack_e5m2(value, 0); }
unsigned to_e2m1(float value) { return moegen::pack_e2m1(value, 0); }
unsigned to_float16(float value) { return moegen_cpu_float_to_float16(value); }
unsigned to_bfloat16(float value) { return moegen_cpu_float_to_bfloat16(value); }

template <class Convert>
std::uint64_t count_wrong(const Format& format, Convert convert) {
  const Nearest nearest(format);
  std::uint64_t wrong = 0;
  for (std::uint64_t bits = 0; bits >> 32 == 0; bits += step()) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    wrong += convert(value) != nearest.of(value);
  }
  return wrong;
}

unsigned e8m0_up(float value) {
  if (std::isnan(value)) return 0xFF;
  const double magnitude = std::fabs(static_cast<double>(value));
  for (unsigned code = 0; code < 0xFE; ++code)
    if (std::ldexp(1.0, static_cast<int>(code) - 127) >= magnitude) return code;
  return 0xFE;
}

}  // namespace

TEST_CASE("floats become the nearest value of each type") {
  CHECK(count_wrong(kE4m3, to_e4m3) == 0);
  CHECK(count_wrong(kE5m2, to_e5m2) == 0);
  CHECK(count_wrong(kE2m1, to_e2m1) == 0);
  CHECK(count_wrong(kFloat16, to_float16) == 0);
  CHECK(count_wrong(kBfloat16, to_bfloat16) == 0);
}

TEST_CASE("floats around every value and every middle of the small types") {
  const std::pair<Format, unsigned (*)(float)> kinds[] = {{kE4m3, to_e4m3}, {kE5m2, to_e5m2}, {kE2m1, to_e2m1}};
  for (const auto& [format, convert] : kinds) {
    const Nearest nearest(format);
    for (unsigned magnitude = 0; magnitude <= format.largest; ++magnitude) {
      const double value = format.value(magnitude), next = format.value(magnitude + 1);
      for (double center : {value, (value + next) / 2}) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(center));
        for (std::uint32_t near = bits < 3 ? 0 : bits - 3; near <= bits + 3; ++near)
          for (std::uint32_t sign : {0u, 0x80000000u}) {
            const float input = std::bit_cast<float>(near | sign);
            CHECK(convert(input) == nearest.of(input));
          }
      }
    }
  }
}

TEST_CASE("scales are rounded up to powers of two") {
  for (std::uint64_t bits = 0; bits >> 32 == 0; bits += 65521) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    CHECK(moegen::pack_e8m0_up(value, 0) == e8m0_up(value));
  }
  for (std::uint32_t bits : {0u, 1u, 0x3FFFFFu, 0x400000u, 0x400001u, 0x7FFFFFu, 0x800000u, 0x800001u, 0x7F000000u,
                             0x7F000001u, 0x7F7FFFFFu, 0x7F800000u, 0xFF800000u, 0x7FC00000u}) {
    const float value = std::bit_cast<float>(bits);
    CHECK(moegen::pack_e8m0_up(value, 0) == e8m0_up(value));
  }
}

TEST_CASE("pairs keep their order") {
  CHECK(moegen::pack_e4m3(1, -2) == 0xC038);
  CHECK(moegen::pack_e5m2(1, -2) == 0xC03C);
  CHECK(moegen::pack_e2m1(1, -2) == 0xC2);
  CHECK(moegen::pack_e8m0_up(1, -2) == 0x807F);
}

TEST_CASE("every code becomes its value") {
  for (unsigned code = 0; code < 256; ++code) {
    const double sign = code & 0x80 ? -1 : 1;
    const float e4m3 = moegen::unpack_e4m3(code << 8).high, e5m2 = moegen::unpack_e5m2(code << 8).high;
    const unsigned magnitude = code & 0x7F;
    if (magnitude == 0x7F)
      CHECK(std::isnan(e4m3));
    else
      CHECK(e4m3 == static_cast<float>(sign * kE4m3.value(magnitude)));
    if (magnitude > 0x7C)
      CHECK(std::isnan(e5m2));
    else if (magnitude == 0x7C)
      CHECK(e5m2 == static_cast<float>(sign) * std::numeric_limits<float>::infinity());
    else
      CHECK(e5m2 == static_cast<float>(sign * kE5m2.value(magnitude)));
    CHECK(moegen::unpack_e2m1(code).high == static_cast<float>(sign * kE2m1.value(code >> 4 & 7)));
    const float e8m0 = moegen::to_float(moegen::float8_e8m0fnu{static_cast<std::uint8_t>(code)});
    CHECK((code == 255 ? std::isnan(e8m0) : e8m0 == static_cast<float>(std::ldexp(1.0, static_cast<int>(code) - 127))));
  }
}
