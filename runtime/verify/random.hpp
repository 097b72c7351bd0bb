// SPDX-License-Identifier: Apache-2.0
// Random numbers by position: the same seed and index give the same number on any thread and in any order.
#pragma once

#include <cstdint>

namespace moegen::verify {

/// A well-mixed 64-bit number (the finaliser of SplitMix64, Steele et al. 2014).
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15u + index + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Uniform in [0, 1).
inline double random_unit(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(random_bits(seed, index) >> 11) * 0x1p-53;
}

/// Uniform in [0, bound).
inline std::uint64_t random_below(std::uint64_t seed, std::uint64_t index, std::uint64_t bound) {
  return static_cast<std::uint64_t>(random_unit(seed, index) * static_cast<double>(bound));
}

}  // namespace moegen::verify
