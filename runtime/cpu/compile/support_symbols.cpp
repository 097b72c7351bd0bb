// SPDX-License-Identifier: Apache-2.0
// What generated code calls of the C and the compiler's library, where the host has no instruction for it.
#include <cmath>
#include <cstring>

#include "cpu/compile/symbols.hpp"

// The compiler library's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
float __extendhfsf2(unsigned short bits);
unsigned short __truncsfhf2(float value);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace moegen::cpu {

namespace {

template <class Function>
Symbol symbol(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

using OneFloat = float(float);
using TwoFloats = float(float, float);
using ThreeFloats = float(float, float, float);
using OneDouble = double(double);
using TwoDoubles = double(double, double);
using ThreeDoubles = double(double, double, double);

}  // namespace

std::vector<Symbol> support_symbols() {
  return {
      symbol("memcpy", static_cast<void* (*)(void*, const void*, std::size_t)>(&std::memcpy)),
      symbol("memmove", static_cast<void* (*)(void*, const void*, std::size_t)>(&std::memmove)),
      symbol("memset", static_cast<void* (*)(void*, int, std::size_t)>(&std::memset)),
      symbol("memcmp", static_cast<int (*)(const void*, const void*, std::size_t)>(&std::memcmp)),
      symbol<OneFloat>("floorf", &std::floor),
      symbol<OneFloat>("ceilf", &std::ceil),
      symbol<OneFloat>("truncf", &std::trunc),
      symbol<OneFloat>("rintf", &std::rint),
      symbol<OneFloat>("nearbyintf", &std::nearbyint),
      symbol<OneFloat>("sqrtf", &std::sqrt),
      symbol<TwoFloats>("fminf", &std::fmin),
      symbol<TwoFloats>("fmaxf", &std::fmax),
      symbol<TwoFloats>("fmodf", &std::fmod),
      symbol<ThreeFloats>("fmaf", &std::fma),
      symbol<OneDouble>("floor", &std::floor),
      symbol<OneDouble>("ceil", &std::ceil),
      symbol<OneDouble>("trunc", &std::trunc),
      symbol<OneDouble>("rint", &std::rint),
      symbol<OneDouble>("nearbyint", &std::nearbyint),
      symbol<OneDouble>("sqrt", &std::sqrt),
      symbol<TwoDoubles>("fmin", &std::fmin),
      symbol<TwoDoubles>("fmax", &std::fmax),
      symbol<TwoDoubles>("fmod", &std::fmod),
      symbol<ThreeDoubles>("fma", &std::fma),
      symbol("__extendhfsf2", &__extendhfsf2),
      symbol("__truncsfhf2", &__truncsfhf2),
  };
}

}  // namespace moegen::cpu
