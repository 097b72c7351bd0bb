// SPDX-License-Identifier: Apache-2.0
// finalize's tensors on a target for a given routing, and the comparison of its output with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/args/finalize.h>
#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "reference/finalize.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/memory.hpp"
#include "verify/tensor.hpp"

namespace moegen::verify {

/// Row of a pair that has none.
inline constexpr std::uint32_t kNoRow = 0xFFFFFFFFu;

/// Where each pair's row is, and whose it is.
struct Routing {
  std::vector<std::uint32_t> restore;  ///< [T * slots] row of `down`, or kNoRow
  std::vector<std::int64_t> ids;       ///< [T * slots]
  std::int64_t rows = 0;               ///< of `down`
};

struct FinalizeOptions {
  std::uint64_t seed = 1;
  bool spoil_rows = false;                     ///< a few rows hold NaN and infinities
  const std::vector<char>* weights = nullptr;  ///< [T, slots] router.weights as a router left them; null: random
  const std::vector<char>* down = nullptr;     ///< [rows, D] finalize.down as the experts left them; null: random
  const std::vector<char>* x = nullptr;        ///< [T, D] dtypes.activation; null: random
  std::int64_t row_stride = 1;  ///< row r of the routing is row r * row_stride on the target; NaN rows lie between
};

/// The weight of a pair without a row is NaN, unless it is a zero expert's: it must not reach the output. So are all
/// rows of `down` that the routing does not name.
class FinalizeProblem {
 public:
  FinalizeProblem(Target target, const Config& config, Routing routing, const FinalizeOptions& options);

  finalize::Args args() const;
  /// Host copies of what the reference reads; valid as long as this is.
  reference::FinalizeInputs inputs() const;
  std::vector<char> output() const { return output_.download(); }
  /// Poisons the output.
  void reset() const { output_.reset(); }
  /// The first element out of tolerance, or nothing. Tolerance: half an ulp of the output and the bound of
  /// reference::finalize_row.
  std::optional<std::string> compare() const;

 private:
  void make_tensors(const FinalizeOptions& options);
  void upload(Target target, std::int64_t row_stride);
  void upload_rows(Target target, std::int64_t row_stride);
  std::optional<std::string> compare_tokens(const reference::FinalizeInputs& inputs, const std::vector<char>& output,
                                            std::int64_t begin, std::int64_t end) const;

  const Config config_;
  const Routing routing_;
  const std::int64_t num_tokens_;
  Tensor down_, weights_, x_, ids_, residual_, shared_, gate_, bias_;
  std::vector<Tensor> named_;
  Memory restore_;
  GuardedBuffer output_;
};

}  // namespace moegen::verify
