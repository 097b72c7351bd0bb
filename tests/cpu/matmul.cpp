// SPDX-License-Identifier: Apache-2.0
#include "cpu/matmul.hpp"

#include <bit>

#include <fmt/format.h>

#include "support/core_text.hpp"
#include "wgmma.hpp"

namespace moegen::test {
namespace {

/// The code of a whole number from -4 to 4, bfloat16 or e4m3.
std::uint32_t code_of(Dtype element, int value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (element == Dtype::bfloat16) return bits >> 16;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  return bits >> 31 << 7 | (magnitude == 0 ? 0 : (magnitude - (120u << 23)) >> 20);
}

struct Matrix {
  std::vector<unsigned char> bytes;
  std::vector<double> values;
};

Matrix random_matrix(Dtype element, std::size_t count, std::uint32_t seed) {
  Matrix matrix;
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const int value = static_cast<int>((state >> 40) % 9) - 4;
    const std::uint32_t code = code_of(element, value);
    for (int byte = 0; byte < bits(element) / 8; ++byte)
      matrix.bytes.push_back(static_cast<unsigned char>(code >> 8 * byte));
    matrix.values.push_back(value);
  }
  return matrix;
}

double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::string matmul_entry(Dtype element) { return "matmul_" + std::string(to_string(element)); }

std::string matmul_text() {
  std::string text = core_text() + "namespace moegen {\n";
  for (Dtype element : {Dtype::bfloat16, Dtype::float8_e4m3fn}) text += spell_wgmma({element, 128});
  text += "}\n" + without_includes(file_text("tests/cpu/kernels/matmul.cuh"));
  for (Dtype element : {Dtype::bfloat16, Dtype::float8_e4m3fn})
    text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, 1) {}(const __grid_constant__ moegen::matmul::Arguments "
        "args) "
        "{{\n  moegen::matmul::run<moegen::{}>(args);\n}}\n",
        kMatmulThreads, matmul_entry(element), to_string(element));
  return text;
}

MatmulProblem::MatmulProblem(Dtype element_, std::uint32_t m_, std::uint32_t n_, std::uint32_t k_)
    : element(element_), m(m_), n(n_), k(k_) {
  Matrix left = random_matrix(element, std::size_t{m} * k, 7), right = random_matrix(element, std::size_t{n} * k, 11);
  a = std::move(left.bytes);
  b = std::move(right.bytes);
  c.resize(std::size_t{m} * n);
  for (std::size_t y = 0; y < m; ++y)
    for (std::size_t x = 0; x < n; ++x)
      c[y * n + x] = static_cast<float>(dot(&left.values[y * k], &right.values[x * k], k));
}

TensorMapDescription MatmulProblem::map(char tensor, const void* base) const {
  const std::uint32_t bytes = static_cast<std::uint32_t>(bits(element) / 8);
  return {.element = element == Dtype::bfloat16 ? TensorElement::bfloat16 : TensorElement::uint8,
          .base = base,
          .dims = {k, tensor == 'a' ? m : n},
          .strides = {std::uint64_t{k} * bytes},
          .box = {128 / bytes, 128},
          .swizzle = TensorSwizzle::span_128,
          .name = std::string("tensor map of ") + tensor};
}

std::size_t MatmulProblem::num_wrong(const std::vector<float>& result) const {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < c.size(); ++i) wrong += i >= result.size() || result[i] != c[i];
  return wrong;
}

}  // namespace moegen::test
