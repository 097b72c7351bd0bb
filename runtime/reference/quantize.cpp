// SPDX-License-Identifier: Apache-2.0
#include "reference/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "reference/number.hpp"

namespace moegen::reference {
namespace {

constexpr float kLargest = 448;

// Numbers in their order: ... -1 for the least negative one, 0 for both zeros, 1 ...
int rank(double value) {
  std::uint8_t code = 0;
  store(Dtype::float8_e4m3fn, &code, 0, value);
  return std::signbit(value) ? -(code & 0x7F) : code & 0x7F;
}

}  // namespace

double e4m3_scale(double absmax, double floor, Dtype scale) {
  const float least = static_cast<float>(floor), most = static_cast<float>(absmax);
  const double exact = double{std::max(most, least) / kLargest};
  return rounded_to(scale, exact);
}

double e4m3_value(double value, double scale) {
  const float quotient = static_cast<float>(value) / static_cast<float>(scale);
  return rounded_to(Dtype::float8_e4m3fn, quotient);
}

int e4m3_distance(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : 255;
  return std::abs(rank(a) - rank(b));
}

}  // namespace moegen::reference
