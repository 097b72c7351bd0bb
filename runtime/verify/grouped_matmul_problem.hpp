// SPDX-License-Identifier: Apache-2.0
// grouped_matmul's tensors on a target for a given case, and the comparison of its output with the reference.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <moegen/args/grouped_matmul.h>
#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "reference/grouped_matmul.hpp"
#include "verify/grouped_matmul_case.hpp"
#include "verify/grouped_matmul_check.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/memory.hpp"
#include "verify/tensor.hpp"

namespace moegen::verify {

/// What the plan of `kernel` makes of `config`.
reference::MatmulSpec matmul_spec(const Kernel& kernel, const Config& config);

/// Rows of a as a kernel left them, on the host.
struct MatmulRows {
  std::vector<char> a;               ///< [rows, K]
  std::vector<char> scales;          ///< as the argument struct has them; empty where there are none
  std::int64_t scales_stride = 0;    ///< of scale_layout column, resolved
  std::vector<std::uint32_t> order;  ///< [R], only with gather_a
  std::int64_t num_rows = 0;         ///< of a
};

/// Everything that no group names is NaN: rows of a and their scales, experts' weights, scales and biases, and rows of
/// tokens that no pair of the order stands for. Values are scaled so that sums are about 1; the first and the last 16
/// bytes of each row of a are four times as large, so that a wrong end of K shows.
class GroupedMatmulProblem {
 public:
  GroupedMatmulProblem(Target target, reference::MatmulSpec spec, GroupedMatmulCase matmul_case);
  /// On rows that another kernel made; NaN is only what else no group names.
  GroupedMatmulProblem(Target target, reference::MatmulSpec spec, GroupedMatmulCase matmul_case,
                       const MatmulRows& rows);
  GroupedMatmulProblem(const GroupedMatmulProblem&) = delete;
  GroupedMatmulProblem& operator=(const GroupedMatmulProblem&) = delete;

  const reference::MatmulSpec& spec() const noexcept { return spec_; }
  const reference::MatmulTensors& tensors() const noexcept { return tensors_; }
  grouped_matmul::Args args() const;
  /// Elements between two blocks of c_scales, resolved.
  std::int64_t c_scales_stride() const { return stride_of(case_.num_rows()); }
  /// Poisons the outputs.
  void reset() const;
  /// Poisons the outputs, launches and waits for the end.
  void run(const Kernel& kernel) const;
  /// Other groups over the same rows and experts: R and G must stay, and so must the experts with rows.
  void regroup(GroupedMatmulCase matmul_case);
  /// The first thing out of tolerance, or nothing. `sums` gives the reference's sums, by default the host.
  std::optional<std::string> compare(const SumSource& sums = {}, std::int64_t budget = kHostBudget);
  /// What the kernel wrote.
  std::vector<char> output() const { return c_.download(); }
  std::vector<char> output_scales() const { return c_scales_.download(); }
  /// Bytes of one row of c.
  std::size_t row_bytes() const noexcept;

  /// Products that the host computes in about two seconds on one core.
  static constexpr std::int64_t kHostBudget = std::int64_t{1} << 30;

  /// Device addresses of what the reference reads, for one that runs there.
  const Memory& a() const noexcept { return a_.device; }
  const Memory& b() const noexcept { return b_; }
  const Memory& a_scales() const noexcept { return a_scales_.device; }
  const Memory& b_scales() const noexcept { return b_scales_.device; }

 private:
  struct Given;  ///< tells the constructors apart
  GroupedMatmulProblem(Target target, reference::MatmulSpec spec, GroupedMatmulCase matmul_case, const Given& given);
  void take_rows(const MatmulRows& rows);
  void make_order();
  void make_a();
  void make_weights(Target target);
  void make_a_scales();
  void make_b_scales();
  void make_epilogue();
  void spoil();
  void upload(Target target);
  void upload_groups(Target target);
  std::vector<bool> used_rows() const;
  std::int64_t num_a_rows() const;
  std::int64_t stride_of(std::int64_t rows) const;

  const Target target_;
  const reference::MatmulSpec spec_;
  GroupedMatmulCase case_;
  const std::int64_t before_, behind_;  ///< rows of a in no group when it was made: NaN
  const int num_experts_;
  std::int64_t num_tokens_ = 0;
  Tensor a_, a_scales_, b_scales_, bias_, limits_;
  std::vector<std::vector<char>> experts_;  ///< [N, K] of each used expert
  std::vector<Tensor> named_;
  std::vector<std::uint32_t> order_;
  Memory b_, offsets_, ids_, order_device_;
  GuardedBuffer c_, c_scales_;
  reference::MatmulTensors tensors_;
  std::unique_ptr<GroupedMatmulCheck> check_;
};

}  // namespace moegen::verify
