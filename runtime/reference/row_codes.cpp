// SPDX-License-Identifier: Apache-2.0
#include "reference/row_codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reference/number.hpp"

namespace moegen::reference {
namespace {

constexpr std::array<double, 8> kE2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
constexpr int kE2m1OfNan = 7;

// The nearest of the eight magnitudes, the even code of two equally near.
int encode_e2m1(double value) {
  if (std::isnan(value)) return kE2m1OfNan;
  const double magnitude = std::min(std::abs(value), kE2m1.back());
  int best = 0;
  for (int code = 1; code < 8; ++code) {
    const double here = std::abs(kE2m1[static_cast<std::size_t>(code)] - magnitude);
    const double there = std::abs(kE2m1[static_cast<std::size_t>(best)] - magnitude);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(value) ? 8 : 0);
}

int encode_e4m3(double value) {
  std::uint8_t code = 0;
  store(Dtype::float8_e4m3fn, &code, 0, value);
  return code;
}

// Codes in the order of their values; both zeros are 0.
int rank(int code, int sign_bit) {
  const int magnitude = code & (sign_bit - 1);
  return code & sign_bit ? -magnitude : magnitude;
}

std::int64_t group_size(Scheme scheme, std::int64_t width) {
  switch (scheme) {
    case Scheme::block128: return 128;
    case Scheme::mxfp8:
    case Scheme::mxfp4: return 32;
    case Scheme::nvfp4: return 16;
    default: return width;
  }
}

bool has_scales(Scheme scheme) { return scheme != Scheme::none && scheme != Scheme::tensor; }

}  // namespace

// A group and the range that its absolute maximum is in.
struct RowCodes::Group {
  std::int64_t index, begin, end;
  double least = 0, most = 0;
  bool nan = false;
};

RowCodes::RowCodes(const QuantizationConfig& quantization, Scheme scheme, Dtype dtype, std::int64_t width, float global)
    : scheme_(scheme),
      dtype_(dtype),
      width_(width),
      group_(group_size(scheme, width)),
      floor_(static_cast<float>(quantization.floor)),
      global_(global),
      fp4_(scheme == Scheme::mxfp4 || scheme == Scheme::nvfp4) {
  if (has_scales(scheme)) num_scales_ = (width + group_ - 1) / group_;
  scale_dtype_ = scheme == Scheme::nvfp4 ? Dtype::float8_e4m3fn : quantization.scale;
}

std::int64_t RowCodes::row_bytes() const noexcept {
  if (scheme_ == Scheme::none) return width_ * bits(dtype_) / 8;
  return fp4_ ? width_ / 2 : width_;
}

RowCodes::Group RowCodes::group_of(const RowTruth& truth, std::int64_t index) const {
  Group group{index, index * group_, std::min((index + 1) * group_, width_)};
  for (std::int64_t column = group.begin; column < group.end; ++column) {
    const auto at = static_cast<std::size_t>(column);
    const double magnitude = std::abs(truth.value[at]);
    if (std::isnan(magnitude)) group.nan = true;
    if (!std::isfinite(magnitude)) continue;
    group.least = std::max(group.least, magnitude - truth.error[at]);
    group.most = std::max(group.most, magnitude + truth.error[at]);
  }
  return group;
}

// The stored scale of a group, decoded.
double RowCodes::scale_for(double absmax) const {
  const auto most = static_cast<float>(absmax);
  if (scheme_ == Scheme::nvfp4) return rounded_to(Dtype::float8_e4m3fn, double{global_ * most / 6.0f});
  const float largest = scheme_ == Scheme::mxfp4 ? 6.0f : 448.0f;
  return rounded_to(scale_dtype_, double{std::max(most, floor_) / largest});
}

float RowCodes::divisor_for(double scale) const {
  const auto stored = static_cast<float>(scale);
  return scheme_ == Scheme::nvfp4 ? stored / global_ : stored;
}

int RowCodes::encode(float quotient) const {
  return fp4_ ? encode_e2m1(double{quotient}) : encode_e4m3(double{quotient});
}

int RowCodes::code_at(const void* row, std::int64_t column) const {
  const auto* bytes = static_cast<const std::uint8_t*>(row);
  if (!fp4_) return bytes[column];
  return bytes[column / 2] >> (column % 2 == 0 ? 0 : 4) & 15;
}

std::optional<std::string> RowCodes::check_scale(const Group& group, double stored) const {
  if (fp4_ && group.nan) {
    if (std::isnan(stored)) return std::nullopt;
    return fmt::format("scale {}: got {:.9g}, want NaN: its group has one", group.index, stored);
  }
  const double least = scale_for(group.least), most = scale_for(group.most);
  if (stored >= least && stored <= most) return std::nullopt;
  return fmt::format("scale {}: got {:.9g}, want {:.9g} to {:.9g}", group.index, stored, least, most);
}

std::optional<std::string> RowCodes::check_code(double value, double error, std::int64_t column, float divisor,
                                                const void* row) const {
  const int got = code_at(row, column), sign_bit = fp4_ ? 8 : 0x80;
  const bool exact = error == 0 || !std::isfinite(value);
  const int low = encode(static_cast<float>(exact ? value : value - error) / divisor);
  const int high = encode(static_cast<float>(exact ? value : value + error) / divisor);
  const bool right =
      exact ? got == low : rank(got, sign_bit) >= rank(low, sign_bit) && rank(got, sign_bit) <= rank(high, sign_bit);
  if (right) return std::nullopt;
  return fmt::format("column {}: got code {:#04x}, want {:#04x} to {:#04x} for {:.9g} under {:.9g}", column, got, low,
                     high, value, divisor);
}

std::optional<std::string> RowCodes::check_group(const RowTruth& truth, const Group& group, const void* row,
                                                 const void* scales) const {
  const bool scaled = num_scales_ > 0;
  const double scale = scaled ? load(scale_dtype_, scales, static_cast<std::size_t>(group.index)) : 0;
  if (scaled)
    if (auto wrong = check_scale(group, scale)) return wrong;
  const float divisor = scaled ? divisor_for(scale) : global_;
  for (std::int64_t column = group.begin; column < group.end; ++column) {
    if (scheme_ == Scheme::nvfp4 && scale == 0) {
      if (code_at(row, column) != 0) return fmt::format("column {}: the scale is 0 but the code is not", column);
      continue;
    }
    const auto at = static_cast<std::size_t>(column);
    if (auto wrong = check_code(truth.value[at], truth.error[at], column, divisor, row)) return wrong;
  }
  return std::nullopt;
}

std::optional<std::string> RowCodes::check_elements(const RowTruth& truth, const void* row) const {
  for (std::size_t i = 0; i < static_cast<std::size_t>(width_); ++i) {
    const double got = load(dtype_, row, i), want = truth.value[i], error = truth.error[i];
    const bool exact = error == 0 || !std::isfinite(want);
    const double low = rounded_to(dtype_, exact ? want : want - error), high = rounded_to(dtype_, want + error);
    const bool right = std::isnan(want) ? std::isnan(got)
                       : exact          ? got == low && std::signbit(got) == std::signbit(low)
                                        : got >= low && got <= high;
    if (!right) return fmt::format("column {}: got {:.9g}, want {:.9g} +- {:.3g}", i, got, want, error);
  }
  return std::nullopt;
}

std::optional<std::string> RowCodes::check(const RowTruth& truth, const void* row, const void* scales) const {
  if (scheme_ == Scheme::none) return check_elements(truth, row);
  for (std::int64_t index = 0; index * group_ < width_; ++index)
    if (auto wrong = check_group(truth, group_of(truth, index), row, scales)) return wrong;
  return std::nullopt;
}

}  // namespace moegen::reference
