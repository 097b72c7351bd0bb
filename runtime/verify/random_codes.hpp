// SPDX-License-Identifier: Apache-2.0
// Random numbers made bit by bit, for tensors of billions of elements.
#pragma once

#include <cstdint>

#include <moegen/dtype.hpp>

#include "verify/random.hpp"

namespace moegen::verify {

/// Numbers of both signs, evenly over the five binades from 2^(exponent - 3) to 2^(exponent + 2) and over all
/// mantissas. Exists for bfloat16, float16 and float8_e4m3fn; root mean square 1.58 * 2^exponent.
class RandomCodes {
 public:
  RandomCodes(Dtype dtype, int exponent)
      : mantissa_bits_(dtype == Dtype::bfloat16  ? 7
                       : dtype == Dtype::float16 ? 10
                                                 : 3),
        first_exponent_((dtype == Dtype::bfloat16  ? 127
                         : dtype == Dtype::float16 ? 15
                                                   : 7) -
                        3 + exponent),
        sign_bit_(bits(dtype) - 1) {}

  /// A code from 16 random bits or more.
  std::uint32_t code(std::uint32_t random) const {
    const std::uint32_t mantissa = random & ((1u << mantissa_bits_) - 1), rest = random >> mantissa_bits_;
    const std::uint32_t exponent = static_cast<std::uint32_t>(first_exponent_) + (rest >> 1) % 5;
    return (rest & 1) << sign_bit_ | exponent << mantissa_bits_ | mantissa;
  }
  /// `code` times 4.
  std::uint32_t raise(std::uint32_t code) const { return code + (2u << mantissa_bits_); }

  /// Codes at `first` .. `first` + `count` of the stream `seed`.
  template <class Code>
  void fill(Code* out, std::uint64_t first, std::uint64_t count, std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < count; i += 3) {
      const std::uint64_t random = random_bits(seed, first + i);
      for (std::uint64_t j = 0; j < 3 && i + j < count; ++j)
        out[i + j] = static_cast<Code>(code(static_cast<std::uint32_t>(random >> (21 * j) & 0x1FFFFF)));
    }
  }

 private:
  int mantissa_bits_, first_exponent_, sign_bit_;
};

}  // namespace moegen::verify
