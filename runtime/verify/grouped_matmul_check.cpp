// SPDX-License-Identifier: Apache-2.0
#include "verify/grouped_matmul_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "reference/number.hpp"
#include "reference/quantize.hpp"
#include "verify/acceptable.hpp"
#include "verify/parallel.hpp"
#include "verify/random.hpp"

namespace moegen::verify {
namespace {

constexpr char kPoison = static_cast<char>(0xFF);
constexpr std::size_t kMostExpected = std::size_t{1} << 22;  // values at a time: 64 MiB
constexpr std::int64_t kFewestRows = 256;                    // of a sample
constexpr std::int64_t kEnds = 8;                            // units at both ends that a sample always holds
constexpr std::int64_t kColumnUnit = 8;

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// About `kept` of the numbers below `count`: `always`, both ends, and others at random. Ascending.
std::vector<std::int64_t> sample(std::int64_t count, std::int64_t kept, std::vector<std::int64_t> always) {
  std::vector<std::int64_t> chosen;
  if (kept >= count) {
    for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i);
    return chosen;
  }
  chosen = std::move(always);
  for (std::int64_t i = 0; i < std::min(kEnds, count); ++i) chosen.insert(chosen.end(), {i, count - 1 - i});
  for (std::int64_t i = static_cast<std::int64_t>(chosen.size()); i < kept; ++i)
    chosen.push_back(
        static_cast<std::int64_t>(random_below(17, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(count))));
  return sorted(std::move(chosen));
}

bool is_poison(const char* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](char byte) { return byte == kPoison; });
}

}  // namespace

GroupedMatmulCheck::GroupedMatmulCheck(const reference::MatmulSpec& spec, const reference::MatmulTensors& tensors,
                                       const GroupedMatmulCase& matmul_case, std::int64_t budget)
    : spec_(spec), tensors_(tensors), case_(matmul_case), epilogue_(spec, tensors) {
  std::int64_t row = case_.first_row;
  for (std::size_t g = 0; g < case_.counts.size(); ++g)
    for (std::int64_t i = 0; i < case_.counts[g]; ++i) all_rows_.push_back({row++, case_.ids[g]});
  choose(budget);
}

std::int64_t GroupedMatmulCheck::group_width() const { return spec_.scheme() == Scheme::mxfp8 ? 32 : 128; }

void GroupedMatmulCheck::choose(std::int64_t budget) {
  const std::int64_t unit = quantised() ? group_width() : kColumnUnit;
  const std::int64_t units = (spec_.output_columns + unit - 1) / unit, rows = std::ssize(all_rows_);
  const std::int64_t cells = budget / spec_.depth * spec_.output_columns / spec_.columns;  // of c
  const std::int64_t kept_rows = std::min(rows, std::max(kFewestRows, cells / spec_.output_columns));
  std::vector<std::int64_t> ends;  // of groups
  for (std::int64_t i = 0; i < rows; ++i)
    if (i == 0 || i + 1 == rows ||
        all_rows_[static_cast<std::size_t>(i)].expert != all_rows_[static_cast<std::size_t>(i) - 1].expert)
      ends.insert(ends.end(), {i, std::max<std::int64_t>(i - 1, 0)});
  for (const std::int64_t i : sample(rows, kept_rows, ends)) rows_.push_back(all_rows_[static_cast<std::size_t>(i)]);
  const std::int64_t kept_units = cells / std::max<std::int64_t>(1, std::ssize(rows_)) / unit;
  for (const std::int64_t i : sample(units, kept_units, {}))
    for (std::int64_t column = i * unit; column < std::min((i + 1) * unit, spec_.output_columns); ++column)
      columns_.push_back(column);
}

GroupedMatmulCheck::Chunk GroupedMatmulCheck::expect(std::size_t begin, std::size_t end, const SumSource& sums) const {
  SumQuery query;
  for (std::size_t i = begin; i < end; ++i)
    query.rows.push_back({reference::source_row(spec_, tensors_, rows_[i].row), rows_[i].expert});
  const bool pairs = reference::columns_of(spec_, 0).up >= 0;
  for (const std::int64_t column : columns_) query.columns.push_back(reference::columns_of(spec_, column).gate);
  for (std::size_t i = 0; pairs && i < columns_.size(); ++i)
    query.columns.push_back(reference::columns_of(spec_, columns_[i]).up);
  const std::vector<Bounded> answer = sums(query);
  Chunk chunk{begin, end, std::vector<Bounded>((end - begin) * columns_.size())};
  parallel_for(static_cast<std::int64_t>(end - begin), 16, [&](std::int64_t first, std::int64_t last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      const Bounded* row = &answer[i * query.columns.size()];
      for (std::size_t j = 0; j < columns_.size(); ++j)
        chunk.want[i * columns_.size() + j] =
            epilogue_.finish(rows_[begin + i].row, rows_[begin + i].expert, columns_[j], row[j],
                             pairs ? row[j + columns_.size()] : Bounded{});
    }
  });
  return chunk;
}

std::optional<std::string> GroupedMatmulCheck::compare(const MatmulOutput& output, const SumSource& sums) {
  if (auto wrong = untouched(output)) return wrong;
  if (auto wrong = written(output)) return wrong;
  Norms norms;
  const std::size_t step = std::max<std::size_t>(1, kMostExpected / std::max<std::size_t>(1, columns_.size()));
  if (rows_.size() <= step && !rows_.empty()) {
    if (!kept_) kept_ = expect(0, rows_.size(), sums);
    if (auto wrong = compare_chunk(*kept_, output, norms)) return wrong;
    return judge(norms);
  }
  for (std::size_t begin = 0; begin < rows_.size(); begin += step)
    if (auto wrong = compare_chunk(expect(begin, std::min(begin + step, rows_.size()), sums), output, norms))
      return wrong;
  return judge(norms);
}

// Rows that no group has.
std::optional<std::string> GroupedMatmulCheck::untouched(const MatmulOutput& output) const {
  const std::int64_t rows = case_.num_rows();
  const std::size_t row_bytes = static_cast<std::size_t>(spec_.output_columns * bits(spec_.output) / 8);
  const std::int64_t groups = (spec_.output_columns + group_width() - 1) / group_width();
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row >= case_.first_row && row < rows - case_.rows_behind) continue;
    if (!is_poison(output.c.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes))
      return fmt::format("c[{}, ...]: was written, but no group has the row", row);
    for (std::int64_t group = 0; quantised() && group < groups; ++group)
      if (!std::isnan(scale_at(output, row, group)))
        return fmt::format("c_scales of row {}: was written, but no group has the row", row);
  }
  return std::nullopt;
}

// Elements that are poison still. Whether NaN is right there, only the comparison knows.
std::optional<std::string> GroupedMatmulCheck::written(const MatmulOutput& output) const {
  if (case_.spoil != MatmulSpoil::none) return std::nullopt;
  const auto width = static_cast<std::size_t>(spec_.output_columns),
             bytes = static_cast<std::size_t>(bits(spec_.output)) / 8;
  for (const Row& row : all_rows_)
    for (std::size_t column = 0; column < width; ++column)
      if (is_poison(&output.c[(static_cast<std::size_t>(row.row) * width + column) * bytes], bytes))
        return fmt::format("c[{}, {}]: was not written (expert {})", row.row, column, row.expert);
  return std::nullopt;
}

std::optional<std::string> GroupedMatmulCheck::compare_chunk(const Chunk& chunk, const MatmulOutput& output,
                                                             Norms& norms) const {
  for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
    const Bounded* want = &chunk.want[(i - chunk.begin) * columns_.size()];
    auto wrong =
        quantised() ? compare_codes(rows_[i], want, output, norms) : compare_plain(rows_[i], want, output, norms);
    if (wrong) return wrong;
  }
  return std::nullopt;
}

std::optional<std::string> GroupedMatmulCheck::compare_plain(const Row& row, const Bounded* want,
                                                             const MatmulOutput& output, Norms& norms) const {
  for (std::size_t j = 0; j < columns_.size(); ++j) {
    const auto index = static_cast<std::size_t>(row.row * spec_.output_columns + columns_[j]);
    const double got = reference::load(spec_.output, output.c.data(), index);
    if (!acceptable(spec_.output, got, want[j].value, want[j].error))
      return fmt::format("c[{}, {}]: got {:.9g}, want {:.9g} +- {:.3g} (expert {})", row.row, columns_[j], got,
                         want[j].value, want[j].error, row.expert);
    if (!std::isfinite(want[j].value)) continue;
    norms.difference += (got - want[j].value) * (got - want[j].value);
    norms.reference += want[j].value * want[j].value;
    ++norms.count;
  }
  return std::nullopt;
}

double GroupedMatmulCheck::scale_at(const MatmulOutput& output, std::int64_t row, std::int64_t group) const {
  const std::int64_t groups = (spec_.output_columns + group_width() - 1) / group_width();
  const bool column = spec_.fields.quantization.scale_layout == ScaleLayout::column;
  const std::int64_t index = column ? group * output.c_scales_stride + row : row * groups + group;
  return reference::load(spec_.fields.quantization.scale, output.c_scales.data(), static_cast<std::size_t>(index));
}

std::optional<std::string> GroupedMatmulCheck::compare_codes(const Row& row, const Bounded* want,
                                                             const MatmulOutput& output, Norms& norms) const {
  for (std::size_t first = 0; first < columns_.size();) {
    const std::int64_t group = columns_[first] / group_width();
    std::size_t count = 1;
    while (first + count < columns_.size() && columns_[first + count] / group_width() == group) ++count;
    if (auto wrong = compare_group(row, first, count, want, output, norms)) return wrong;
    first += count;
  }
  return std::nullopt;
}

std::optional<std::string> GroupedMatmulCheck::compare_group(const Row& row, std::size_t first, std::size_t count,
                                                             const Bounded* want, const MatmulOutput& output,
                                                             Norms& norms) const {
  double least = 0, most = 0;
  for (std::size_t j = first; j < first + count; ++j) {
    if (!std::isfinite(want[j].value)) continue;
    least = std::max(least, std::abs(want[j].value) - want[j].error);
    most = std::max(most, std::abs(want[j].value) + want[j].error);
  }
  const QuantizationConfig& config = spec_.fields.quantization;
  const double low = reference::e4m3_scale(least, config.floor, config.scale);
  const double high = reference::e4m3_scale(most, config.floor, config.scale);
  const double scale = scale_at(output, row.row, columns_[first] / group_width());
  if (!(scale >= low && scale <= high))
    return fmt::format("c_scales of row {}, columns {}..{}: got {:.9g}, want {:.9g} to {:.9g}", row.row,
                       columns_[first], columns_[first + count - 1], scale, low, high);
  for (std::size_t j = first; j < first + count; ++j) {
    const auto index = static_cast<std::size_t>(row.row * spec_.output_columns + columns_[j]);
    const double got = reference::load(Dtype::float8_e4m3fn, output.c.data(), index);
    const auto code = [&](double value) { return reference::e4m3_value(value, scale); };
    const bool near = reference::e4m3_distance(got, code(want[j].value)) <= 1;
    const bool within = got >= code(want[j].value - want[j].error) && got <= code(want[j].value + want[j].error);
    if (!near && !within)
      return fmt::format("c[{}, {}]: got code {:.9g} under scale {:.9g}, want {:.9g} +- {:.3g} (expert {})", row.row,
                         columns_[j], got, scale, want[j].value, want[j].error, row.expert);
    if (!std::isfinite(want[j].value)) continue;
    norms.difference += (got * scale - want[j].value) * (got * scale - want[j].value);
    norms.reference += want[j].value * want[j].value;
    norms.error += want[j].error * want[j].error;
    double rounding = 0;
    for (const double value : {want[j].value - want[j].error, want[j].value, want[j].value + want[j].error})
      rounding = std::max(rounding, std::abs(code(value) * scale - want[j].value));
    norms.rounding += rounding * rounding;
    ++norms.count;
  }
  return std::nullopt;
}

// How far the codes of all values within their bounds lie from the reference, and once more the bounds, for codes that
// are next to these. Nothing is taken for random: an activation that clamps leaves one value many times, whose
// roundings do not average.
double GroupedMatmulCheck::quantised_limit(const Norms& norms) {
  return (std::sqrt(norms.rounding) + std::sqrt(norms.error)) / std::sqrt(norms.reference);
}

std::optional<std::string> GroupedMatmulCheck::judge(const Norms& norms) const {
  constexpr std::int64_t kFewest = 256;  // below, single roundings decide
  if (norms.count < kFewest || norms.reference == 0) return std::nullopt;
  const bool fast = bits(spec_.input()) == 8 && spec_.fields.dtypes.accumulate == Accumulate::fast;
  double limit = spec_.output == Dtype::bfloat16 ? 2.5e-3 : 1e-3;
  if (fast) limit = spec_.fuse_activation ? 1e-2 : 5e-3;
  if (quantised()) limit = quantised_limit(norms);
  const double norm = std::sqrt(norms.difference / norms.reference);
  if (norm < limit) return std::nullopt;
  return fmt::format("c: the difference's norm is {:.3g} of the reference's, more than {:.3g}", norm, limit);
}

}  // namespace moegen::verify
