// SPDX-License-Identifier: Apache-2.0
// router in plain float64 code, to compare kernels with. Shares nothing with them.
//
// A float32 router may choose either of two experts whose keys float32 cannot tell apart, so the reference does not
// name ids: it says which experts certainly come before which, and what the weights of given ids are.
#pragma once

#include <cstdint>
#include <vector>

#include <moegen/config.hpp>

namespace moegen::reference {

/// Host copies of router's inputs, in the dtypes of the config; what the config does not use may be null.
struct RouterInputs {
  const void* logits = nullptr;  ///< [T, N], rows `row_stride` elements apart
  std::int64_t row_stride = 0;
  const void* bias = nullptr;           ///< [N]
  const void* token_ids = nullptr;      ///< [T]
  const std::int32_t* table = nullptr;  ///< [vocab, top_k]
  std::vector<const void*> inputs;      ///< named inputs of router.scores
  double scale = 1;
};

/// What one token's row says about expert e, 0 .. N - 1.
struct RoutedExpert {
  double logit = 0;
  double score = 0;        ///< unbiased; 0 where the logit is not finite
  double score_error = 0;  ///< how far a float32 score may be from it; infinite: nothing is claimed, not even that it
                           ///< is finite
  double key = 0, key_error = 0;
  double bias = 0;
  bool finite = false;  ///< logit, score and key are finite
  bool kept = true;     ///< its group may be chosen from
};

struct RouterRow {
  std::vector<RoutedExpert> experts;
  double largest_logit = 0;             ///< of the finite ones
  bool certain_groups = true;           ///< false: float32 cannot tell the last kept group from the first dropped one
  bool known_token = true;              ///< hash routing: the token id is in the vocabulary
  std::vector<std::int32_t> looked_up;  ///< hash routing: the token's ids
};

/// A weight and the bound on what float32 arithmetic may make of it, before the rounding to its dtype.
struct RouterWeight {
  double value = 0, error = 0;
};

RouterRow route(const ConfigFields& fields, const RouterInputs& inputs, std::int64_t token);

/// True if expert `a` certainly comes before expert `b` among the chosen ones: by class (finite keys of kept groups,
/// others of kept groups, dropped groups), by keys further apart than their tolerance, or by id where both have the
/// same inputs or are fillers. Tolerance: 4 ulp of float32 plus the tolerance of a weight times the score.
bool comes_before(const RouterRow& row, std::int32_t a, std::int32_t b);

/// The weights of `ids`, top_k distinct experts, scaled. Tolerances: relative 2e-6, for softmax times
/// (1 + |logit - largest| / 16); no relative claim below 1.2e-38.
std::vector<RouterWeight> router_weights(const ConfigFields& fields, const RouterInputs& inputs, const RouterRow& row,
                                         const std::vector<std::int32_t>& ids);

}  // namespace moegen::reference
