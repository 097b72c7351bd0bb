// SPDX-License-Identifier: Apache-2.0
#include "verify/row_values.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "reference/number.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"

namespace moegen::verify {
namespace {

constexpr std::array<RowKind, 10> kKinds = {RowKind::ordinary, RowKind::ties,     RowKind::tiny, RowKind::huge,
                                            RowKind::zeros,    RowKind::denormal, RowKind::nan,  RowKind::infinite,
                                            RowKind::nothing,  RowKind::one_large};

double largest_of(Dtype dtype) {
  if (dtype == Dtype::float16) return 65504;
  return dtype == Dtype::bfloat16 ? 0x1.FEp127 : double{std::numeric_limits<float>::max()};
}

double least_normal_of(Dtype dtype) { return dtype == Dtype::float16 ? 0x1p-14 : 0x1p-126; }

// The position of an element and the numbers it is drawn from.
struct Place {
  Dtype dtype;
  std::uint64_t seed, at, row, column;
  double most;
  double unit(std::uint64_t stream) const { return random_unit(seed + stream, at); }
  double sign() const { return random_bits(seed, at) & 1 ? -1.0 : 1.0; }
  double binades(double from, double count) const { return sign() * std::exp2(from + count * unit(1)); }
};

// Every 16th column holds the largest code, for a scale of 1, 1.25, 1.5 or 1.75, whose inverses are no float: 448 of
// e4m3, and 6 of e2m1 in every other 128 columns. The rest lie in the middle between two codes: odd multiples of a
// sixteenth of a power of two, and the seven of e2m1.
double tie(const Place& place) {
  constexpr std::array<double, 7> kBetweenE2m1 = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  const bool narrow = place.column % 256 >= 128;
  const double scale = 1 + 0.25 * static_cast<double>((place.row / kKinds.size() + 2) % 4);
  if (place.column % 16 == 0) return scale * (narrow ? 6 : 448);
  if (narrow) return scale * place.sign() * kBetweenE2m1[random_below(place.seed + 2, place.at, kBetweenE2m1.size())];
  const double significand = 16 + 1 + 2 * std::floor(8 * place.unit(2));
  const double exponent = std::floor(18 * place.unit(3)) - 10;
  return scale * place.sign() * std::ldexp(significand, static_cast<int>(exponent) - 4);
}

double spoiled(const Place& place, std::uint64_t period, double what) {
  return place.column % period == place.seed % period ? what : place.binades(-4, 6);
}

double draw(RowKind kind, const Place& place) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case RowKind::ordinary: return place.binades(-4, 6);
    case RowKind::ties: return tie(place);
    case RowKind::tiny: return place.sign() * 1e-30 * place.unit(1);
    case RowKind::huge: return place.sign() * std::min(place.most, largest_of(place.dtype)) * (1 - place.unit(1) / 2);
    case RowKind::zeros: return place.sign() * 0.0;
    case RowKind::denormal: return place.sign() * least_normal_of(place.dtype) * place.unit(1);
    case RowKind::nan: return spoiled(place, 100, std::nan(""));
    case RowKind::infinite: return spoiled(place, 45, place.column % 2 == 0 ? infinity : -infinity);
    case RowKind::nothing: return place.column % 3 == 0 ? std::nan("") : place.sign() * infinity;
    case RowKind::one_large: return place.column == place.seed % 16 ? 30000 : place.binades(-7, 2);
  }
  return 0;
}

}  // namespace

std::string_view to_string(RowKind kind) noexcept {
  switch (kind) {
    case RowKind::ordinary: return "ordinary";
    case RowKind::ties: return "ties";
    case RowKind::tiny: return "tiny";
    case RowKind::huge: return "huge";
    case RowKind::zeros: return "zeros";
    case RowKind::denormal: return "denormal";
    case RowKind::nan: return "nan";
    case RowKind::infinite: return "infinite";
    case RowKind::nothing: return "nothing";
    case RowKind::one_large: return "one_large";
  }
  return "?";
}

std::span<const RowKind> all_row_kinds() noexcept { return kKinds; }

Tensor row_values(Dtype dtype, std::int64_t rows, std::int64_t width, bool hostile, std::uint64_t seed, double most) {
  Tensor tensor{dtype, std::vector<char>(bytes_of(dtype, rows * width)), {}};
  parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const RowKind kind = hostile ? kKinds[static_cast<std::size_t>(row) % kKinds.size()] : RowKind::ordinary;
      for (std::int64_t column = 0; column < width; ++column) {
        const auto at = static_cast<std::uint64_t>(row * width + column);
        reference::store(
            dtype, tensor.host.data(), at,
            draw(kind, {dtype, seed, at, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(column), most}));
      }
    }
  });
  return tensor;
}

}  // namespace moegen::verify
