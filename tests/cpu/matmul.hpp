// SPDX-License-Identifier: Apache-2.0
// The matrix product of kernels/matmul.cuh as tests run it: its text, a problem, and the reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <moegen/dtype.hpp>

#include "tensor_map.hpp"

namespace moegen::test {

inline constexpr std::uint32_t kMatmulThreads = 384, kMatmulSharedBytes = 4 * 2 * 128 * 128 + 64;

/// The kernel's parameter, as matmul.cuh has it.
struct MatmulArguments {
  TensorMap a, b;
  float* c = nullptr;
  std::uint32_t m = 0, n = 0, k = 0;
};

/// The whole text, with entries matmul_bfloat16 and matmul_float8_e4m3fn.
std::string matmul_text();
std::string matmul_entry(Dtype element);

/// Small whole numbers, so that every order of sums in float gives the same bits.
struct MatmulProblem {
  MatmulProblem(Dtype element, std::uint32_t m, std::uint32_t n, std::uint32_t k);

  Dtype element;
  std::uint32_t m, n, k;
  std::vector<unsigned char> a, b;  ///< [m, k], [n, k]
  std::vector<float> c;             ///< [m, n], computed in double

  /// `tensor` is "a" or "b", `base` where it lies for the kernel.
  TensorMapDescription map(char tensor, const void* base) const;
  /// How many of `result` differ from c.
  std::size_t num_wrong(const std::vector<float>& result) const;
};

}  // namespace moegen::test
