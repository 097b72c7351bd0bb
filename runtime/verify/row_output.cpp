// SPDX-License-Identifier: Apache-2.0
#include "verify/row_output.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "reference/number.hpp"
#include "verify/parallel.hpp"

namespace moegen::verify {
namespace {

std::int64_t scale_bytes(const reference::RowCodes& codes) { return bits(codes.scale_dtype()) / 8; }

// Elements between two blocks of columns of the transposed scales.
std::int64_t stride_of(const reference::RowCodes& codes, std::int64_t num_rows, std::int64_t given) {
  const std::int64_t step = 16 / scale_bytes(codes);
  return given != 0 ? given : (num_rows + step - 1) / step * step;
}

bool is_poison(const char* bytes, std::int64_t count) {
  return std::all_of(bytes, bytes + count,
                     [](char byte) { return byte == static_cast<char>(GuardedBuffer::kFloatPoison); });
}

}  // namespace

reference::RowCodes row_codes(const Config& config, const Plan& plan, float global_scale) {
  const Scheme scheme = plan.boolean("quantised") ? config->quantization.scheme : Scheme::none;
  return {config->quantization, scheme, config->dtypes.activation, plan.integer("width"), global_scale};
}

RowOutput::RowOutput(Target target, const Config& config, reference::RowCodes codes, std::int64_t num_rows,
                     std::int64_t scales_stride)
    : codes_(std::move(codes)),
      num_rows_(num_rows),
      stride_(stride_of(codes_, num_rows, scales_stride)),
      column_(config->quantization.scale_layout == ScaleLayout::column),
      rows_(target, "rows", static_cast<std::size_t>(num_rows * codes_.row_bytes()), GuardedBuffer::kFloatPoison),
      scales_(target, "scales",
              static_cast<std::size_t>((column_ ? stride_ : num_rows) * codes_.num_scales() * scale_bytes(codes_)),
              GuardedBuffer::kFloatPoison) {}

void RowOutput::reset() const {
  rows_.reset();
  scales_.reset();
}

std::int64_t RowOutput::scale_index(std::int64_t row, std::int64_t index) const {
  return column_ ? index * stride_ + row : row * codes_.num_scales() + index;
}

std::optional<std::string> RowOutput::compare_rows(const Truth& truth, const std::vector<char>& rows,
                                                   const std::vector<char>& scales, std::int64_t begin,
                                                   std::int64_t end) const {
  reference::RowTruth want;
  const std::int64_t bytes = scale_bytes(codes_);
  std::vector<char> own(static_cast<std::size_t>(codes_.num_scales() * bytes));
  for (std::int64_t row = begin; row < end; ++row) {
    const char* stored = rows.data() + row * codes_.row_bytes();
    for (std::int64_t i = 0; i < codes_.num_scales(); ++i)
      std::memcpy(own.data() + i * bytes, scales.data() + scale_index(row, i) * bytes, static_cast<std::size_t>(bytes));
    if (truth(row, want)) {
      if (auto wrong = codes_.check(want, stored, own.data())) return fmt::format("row {}: {}", row, *wrong);
    } else if (!is_poison(stored, codes_.row_bytes()) ||
               !is_poison(own.data(), static_cast<std::int64_t>(own.size()))) {
      return fmt::format("row {}: was written; it is none of the kernel's", row);
    }
  }
  return std::nullopt;
}

std::optional<std::string> RowOutput::compare(const Truth& truth) const {
  for (const GuardedBuffer* buffer : {&rows_, &scales_})
    if (auto damage = buffer->damage()) return damage;
  const std::vector<char> rows = rows_.download(), scales = scales_.download();
  if (column_)
    for (std::int64_t block = 0; block < codes_.num_scales(); ++block)
      if (!is_poison(scales.data() + (block * stride_ + num_rows_) * scale_bytes(codes_),
                     (stride_ - num_rows_) * scale_bytes(codes_)))
        return fmt::format("scales of columns block {}: the padding of a row was written", block);
  std::optional<std::string> first;
  std::mutex mutex;
  parallel_for(num_rows_, 16, [&](std::int64_t begin, std::int64_t end) {
    auto wrong = compare_rows(truth, rows, scales, begin, end);
    const std::scoped_lock lock(mutex);
    if (wrong && !first) first = std::move(wrong);
  });
  return first;
}

}  // namespace moegen::verify
