// SPDX-License-Identifier: Apache-2.0
// The float64 sums of grouped_matmul's reference from a kernel text of tests (tests/cpu/kernels/matmul_sums.cuh): on a
// GPU, so that large cases are compared in full; on the CPU target, to hold the text to the host's reference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/grouped_matmul.hpp"
#include "support/core_text.hpp"
#include "support/text_launch.hpp"
#include "verify/grouped_matmul_problem.hpp"
#include "verify/matmul_sums.hpp"
#include "verify/memory.hpp"

namespace moegen::test {

inline constexpr const char* kSumsEntry = "matmul_sums";

inline std::string sums_text() {
  return core_text() + without_includes(file_text("tests/cpu/kernels/matmul_sums.cuh"));
}

/// The structs of the text.
struct SumsTile {
  std::int32_t first, count, expert, unused;
};
struct SumsRow {
  std::int64_t a_row, out;
};
struct SumsArguments {
  const void *a, *b, *a_scales, *b_scales;
  const SumsRow* rows;
  const SumsTile* tiles;
  const std::int32_t* columns;
  reference::SumParts* out;
  std::int64_t depth, width, num_columns, a_scales_stride;
  std::int32_t element, scheme, small_scales, column_scales, step, interval, per_scale, num_tiles;
};

/// Answers queries about `problem` with `Text` (GpuText or CpuText), which holds the entry kSumsEntry.
template <class Text>
class DeviceSums {
 public:
  DeviceSums(Target target, const Text& text, const verify::GroupedMatmulProblem& problem)
      : target_(target), text_(text), problem_(problem) {}

  std::vector<Bounded> operator()(const verify::SumQuery& query) const {
    std::vector<reference::SumParts> parts(query.rows.size() * query.columns.size());
    make_tiles(query);
    if (!tiles_.empty() && !query.columns.empty()) launch(query, parts);
    std::vector<Bounded> sums(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (query.rows[i / query.columns.size()].expert >= 0) sums[i] = reference::bound(problem_.spec(), parts[i]);
    return sums;
  }

 private:
  static constexpr std::size_t kRows = 64, kColumns = 32;
  static constexpr std::uint32_t kSharedBytes = 4 * 32 * (kRows + 1 + kColumns + 1);

  void make_tiles(const verify::SumQuery& query) const {
    std::map<std::int32_t, std::vector<SumsRow>> of_expert;
    for (std::size_t i = 0; i < query.rows.size(); ++i)
      if (query.rows[i].expert >= 0)
        of_expert[query.rows[i].expert].push_back({query.rows[i].a_row, static_cast<std::int64_t>(i)});
    rows_.clear();
    tiles_.clear();
    for (const auto& [expert, rows] : of_expert)
      for (std::size_t first = 0; first < rows.size(); first += kRows) {
        const std::size_t count = std::min(kRows, rows.size() - first);
        tiles_.push_back({static_cast<std::int32_t>(rows_.size()), static_cast<std::int32_t>(count), expert, 0});
        rows_.insert(rows_.end(), rows.begin() + static_cast<std::ptrdiff_t>(first),
                     rows.begin() + static_cast<std::ptrdiff_t>(first + count));
      }
  }

  SumsArguments arguments() const {
    const reference::MatmulSpec& spec = problem_.spec();
    SumsArguments args{};
    args.a = problem_.a().data();
    args.b = problem_.b().data();
    args.a_scales = problem_.a_scales().data();
    args.b_scales = problem_.b_scales().data();
    args.depth = spec.depth;
    args.width = spec.columns;
    args.a_scales_stride = problem_.tensors().a_scales_stride;
    args.element = spec.input() == Dtype::bfloat16 ? 0 : spec.input() == Dtype::float16 ? 1 : 2;
    args.scheme = static_cast<std::int32_t>(spec.scheme());
    args.small_scales = spec.fields.quantization.scale == Dtype::float8_e8m0fnu;
    args.column_scales = spec.fields.quantization.scale_layout == ScaleLayout::column;
    args.step = static_cast<std::int32_t>(reference::instruction_depth(spec));
    args.interval = static_cast<std::int32_t>(reference::interval(spec));
    args.per_scale = static_cast<std::int32_t>(spec.scaled_depth());
    return args;
  }

  void launch(const verify::SumQuery& query, std::vector<reference::SumParts>& parts) const {
    static_assert(static_cast<int>(Scheme::none) == 0 && static_cast<int>(Scheme::tensor) == 1 &&
                  static_cast<int>(Scheme::rowwise) == 2 && static_cast<int>(Scheme::block128) == 3 &&
                  static_cast<int>(Scheme::mxfp8) == 4);
    const std::vector<std::int32_t> columns(query.columns.begin(), query.columns.end());
    const auto rows = verify::Memory::of(target_, "rows", rows_), tiles = verify::Memory::of(target_, "tiles", tiles_);
    const auto wanted = verify::Memory::of(target_, "columns", columns);
    const verify::Memory out(target_, "out", parts.size() * sizeof(reference::SumParts));
    SumsArguments args = arguments();
    args.rows = rows.template data<SumsRow>();
    args.tiles = tiles.template data<SumsTile>();
    args.columns = wanted.template data<std::int32_t>();
    args.out = out.template data<reference::SumParts>();
    args.num_columns = static_cast<std::int64_t>(columns.size());
    args.num_tiles = static_cast<std::int32_t>(tiles_.size());
    void* parameters[] = {&args};
    const std::size_t column_tiles = (columns.size() + kColumns - 1) / kColumns;
    text_.run(
        kSumsEntry,
        {.grid = static_cast<std::uint32_t>(tiles_.size() * column_tiles), .block = 256, .shared_bytes = kSharedBytes},
        parameters);
    out.download(parts.data(), parts.size() * sizeof(reference::SumParts));
  }

  Target target_;
  const Text& text_;
  const verify::GroupedMatmulProblem& problem_;
  mutable std::vector<SumsRow> rows_;
  mutable std::vector<SumsTile> tiles_;
};

}  // namespace moegen::test
