// SPDX-License-Identifier: Apache-2.0
// router's tensors on a target for given rows of logits, and the comparison of its outputs with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/args/router.h>
#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "reference/router.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/memory.hpp"
#include "verify/tensor.hpp"

namespace moegen::verify {

/// What a row of logits holds.
enum class LogitPattern {
  ordinary,    ///< normal, standard deviation 2
  ties,        ///< a few values, each many times
  equal,       ///< one value in a row
  saturated,   ///< 18 to 60: every sigmoid is 1
  deep,        ///< -110 to -400: every score is 0 in float32
  extreme,     ///< ordinary, a third the largest and smallest finite numbers of the dtype
  non_finite,  ///< from row to row: one NaN, one infinity, half NaN and infinities, all but one, all
  last_group,  ///< the largest ones at the end of the row
  mixed,       ///< each of the others in turn
};

std::string_view to_string(LogitPattern pattern) noexcept;
std::span<const LogitPattern> all_logit_patterns() noexcept;

/// What the bias holds, where the config has one.
enum class BiasPattern {
  ordinary,  ///< normal, standard deviation 0.1
  negative,  ///< -2 and less, so that every key is negative
  zero,      ///< +0 and -0
  large,     ///< about 100, so that float32 keys lose most of the score
  disabled,  ///< as ordinary, but a quarter -infinity
};

std::string_view to_string(BiasPattern pattern) noexcept;
std::span<const BiasPattern> all_bias_patterns() noexcept;

struct RouterOptions {
  std::int64_t num_tokens = 0;
  LogitPattern logits = LogitPattern::ordinary;
  BiasPattern bias = BiasPattern::ordinary;
  std::int64_t padding = 0;  ///< elements between rows, poisoned
  std::uint64_t seed = 1;
};

class RouterProblem {
 public:
  RouterProblem(Target target, const Config& config, const RouterOptions& options);

  const router::Args& args() const noexcept { return args_; }
  /// Poisons the outputs.
  void reset() const;
  /// The first element out of its rule, or nothing.
  std::optional<std::string> compare() const;
  /// The ids as the kernel left them, [T, slots].
  std::vector<std::int32_t> ids() const;
  /// The weights as the kernel left them, [T, slots] router.weights.
  std::vector<char> weights() const { return weights_.download(); }

  /// Arguments for `token` alone, with outputs of their own; `differs_alone` then compares them bit by bit with the
  /// batch's. Empty where the expression asks for the token's index.
  std::optional<router::Args> alone(std::int64_t token) const;
  std::optional<std::string> differs_alone(std::int64_t token) const;

 private:
  void make_tensors(Target target);
  void make_named(Target target);
  void make_hash(Target target);
  reference::RouterInputs host_inputs() const;
  std::optional<std::string> compare_tokens(const std::vector<std::int32_t>& ids, const std::vector<char>& weights,
                                            std::int64_t begin, std::int64_t end) const;

  const Config config_;
  const RouterOptions options_;
  const std::int64_t num_experts_;  // zero experts included
  Tensor logits_, bias_;
  std::vector<Tensor> named_;
  std::vector<char> token_ids_;
  std::vector<std::int32_t> table_;
  Memory device_token_ids_, device_table_;
  GuardedBuffer indices_, weights_, indices_alone_, weights_alone_;
  router::Args args_{};
};

}  // namespace moegen::verify
