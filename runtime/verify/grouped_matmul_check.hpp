// SPDX-License-Identifier: Apache-2.0
// Compares the output of one grouped_matmul with the reference: element by element, and over all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/grouped_matmul.hpp"
#include "verify/grouped_matmul_case.hpp"
#include "verify/matmul_sums.hpp"

namespace moegen::verify {

/// What the kernel wrote, as bytes; poisoned with 0xFF before.
struct MatmulOutput {
  const std::vector<char>& c;         ///< [R, C]
  const std::vector<char>& c_scales;  ///< empty unless quantised
  std::int64_t c_scales_stride = 0;   ///< of scale_layout column, resolved
};

/// Holds the expected values of one case, so that many runs of it can be compared.
///
/// An element passes within half an ulp of the output and the bound of the reference. A quantised one passes if its
/// scale is one that absolute maxima within their bounds give, and its code one that values within theirs give under
/// that scale, or next to the reference's code under it. Over all elements the relative Frobenius norm of the
/// difference stays below 2.5e-3 (bfloat16), 1e-3 (float16, float32), 5e-3 (float8 inputs with accumulate fast; twice
/// that after an activation, which multiplies two such values); of quantised ones, what rounding within the bounds
/// leaves, about 2.6e-2.
/// Bytes of rows in no group must be poison still; elements of rows in a group must not.
class GroupedMatmulCheck {
 public:
  /// Cases of more than `budget` products are compared on a sample: rows at both ends of every group and columns at
  /// both ends of c, and more at random. All arguments must outlive it.
  GroupedMatmulCheck(const reference::MatmulSpec& spec, const reference::MatmulTensors& tensors,
                     const GroupedMatmulCase& matmul_case, std::int64_t budget);

  /// The first thing that is wrong, or nothing.
  std::optional<std::string> compare(const MatmulOutput& output, const SumSource& sums);

 private:
  struct Row {
    std::int64_t row = 0;
    std::int32_t expert = -1;
  };
  struct Norms {
    double difference = 0, reference = 0;
    double error = 0, rounding = 0;  ///< of quantised values: of float32 sums; of the codes that these allow
    std::int64_t count = 0;
  };
  /// Rows [begin, end) of rows_ with their expected values, [row, column of columns_].
  struct Chunk {
    std::size_t begin = 0, end = 0;
    std::vector<Bounded> want;
  };

  std::int64_t group_width() const;
  bool quantised() const { return spec_.fuse_quantize; }
  void choose(std::int64_t budget);
  Chunk expect(std::size_t begin, std::size_t end, const SumSource& sums) const;
  std::optional<std::string> untouched(const MatmulOutput& output) const;
  std::optional<std::string> written(const MatmulOutput& output) const;
  std::optional<std::string> compare_chunk(const Chunk& chunk, const MatmulOutput& output, Norms& norms) const;
  std::optional<std::string> compare_plain(const Row& row, const Bounded* want, const MatmulOutput& output,
                                           Norms& norms) const;
  std::optional<std::string> compare_codes(const Row& row, const Bounded* want, const MatmulOutput& output,
                                           Norms& norms) const;
  std::optional<std::string> compare_group(const Row& row, std::size_t first, std::size_t count, const Bounded* want,
                                           const MatmulOutput& output, Norms& norms) const;
  double scale_at(const MatmulOutput& output, std::int64_t row, std::int64_t group) const;
  static double quantised_limit(const Norms& norms);
  std::optional<std::string> judge(const Norms& norms) const;

  const reference::MatmulSpec& spec_;
  const reference::MatmulTensors& tensors_;
  const GroupedMatmulCase& case_;
  reference::MatmulEpilogue epilogue_;
  std::vector<Row> all_rows_;          ///< of every group
  std::vector<Row> rows_;              ///< those that are compared
  std::vector<std::int64_t> columns_;  ///< of C; whole groups where quantised
  std::optional<Chunk> kept_;          ///< everything expected, where that is little
};

}  // namespace moegen::verify
