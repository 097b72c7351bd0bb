// SPDX-License-Identifier: Apache-2.0
// Words that every template uses: fixed-width integers, storage types, and what a device function is.
#pragma once

// A kernel's text includes nothing, so the names of <cstdint> are declared here; the same types as the host's on LP64.
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;

#define MOEGEN_DEVICE __device__ __forceinline__

namespace moegen {

/// An index that stands for "none": a dropped pair, an unused row.
enum : uint32_t { kNone = 0xFFFFFFFFu };

/// Storage of 16-bit floats; arithmetic is done in float.
struct bfloat16 {
  uint16_t bits;
};
struct float16 {
  uint16_t bits;
};

/// 8 bytes that move in one access.
struct alignas(8) Vector8 {
  uint32_t word[2];
};

/// 16 bytes that move in one access.
struct alignas(16) Vector16 {
  uint32_t word[4];
};

template <class T>
MOEGEN_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
MOEGEN_DEVICE constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

template <class T>
MOEGEN_DEVICE constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}

template <class T>
MOEGEN_DEVICE constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

}  // namespace moegen
