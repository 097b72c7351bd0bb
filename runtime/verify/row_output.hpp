// SPDX-License-Identifier: Apache-2.0
// Rows and scales that a kernel writes, poisoned before, and their comparison with what they may be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "reference/row_codes.hpp"
#include "verify/guarded_buffer.hpp"

namespace moegen::verify {

/// How a kernel stores rows, from its config and its plan.
reference::RowCodes row_codes(const Config& config, const Plan& plan, float global_scale);

class RowOutput {
 public:
  /// Memory for `num_rows` rows; in the column layout with `scales_stride` elements between two blocks, 0: the default.
  RowOutput(Target target, const Config& config, reference::RowCodes codes, std::int64_t num_rows,
            std::int64_t scales_stride);

  void* rows() const noexcept { return rows_.data(); }
  /// Null where there are none.
  void* scales() const noexcept { return codes_.num_scales() == 0 ? nullptr : scales_.data(); }
  void reset() const;
  std::vector<char> download_rows() const { return rows_.download(); }
  std::vector<char> download_scales() const { return scales_.download(); }
  /// Elements between two blocks of columns of the column layout, resolved.
  std::int64_t scales_stride() const noexcept { return stride_; }

  /// Fills the truth of a row; false: the row must not have been touched. Called on several threads.
  using Truth = std::function<bool(std::int64_t row, reference::RowTruth& truth)>;
  /// The first wrong row, or nothing.
  std::optional<std::string> compare(const Truth& truth) const;

 private:
  std::int64_t scale_index(std::int64_t row, std::int64_t index) const;
  std::optional<std::string> compare_rows(const Truth& truth, const std::vector<char>& rows,
                                          const std::vector<char>& scales, std::int64_t begin, std::int64_t end) const;

  reference::RowCodes codes_;
  std::int64_t num_rows_, stride_;
  bool column_;
  GuardedBuffer rows_, scales_;
};

}  // namespace moegen::verify
