// SPDX-License-Identifier: Apache-2.0
// Reports: the findings of one launch, each place told once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <moegen/cpu_target.hpp>

namespace moegen::cpu {

/// Number of a place in the kernel's text (compile/sites.hpp); 0 = unknown.
using Site = std::uint32_t;

/// What makes two findings the same one: what is wrong, where, and the place of the other side (0 = none).
struct FindingKey {
  CpuFinding finding = CpuFinding::misuse;
  Site site = 0, other = 0;
  bool operator<(const FindingKey& right) const noexcept {
    return std::tie(finding, site, other) < std::tie(right.finding, right.site, right.other);
  }
};

/// Keeps the first `limit` different findings and counts how often each came again.
class Reports {
 public:
  explicit Reports(std::size_t limit = CpuOptions{}.max_reports) : limit_(limit) {}
  /// True if a report for `key` is to be made and added; a known one is counted, one over the limit is dropped.
  bool wants(const FindingKey& key);
  /// `key` is one that was wanted.
  void add(const FindingKey& key, CpuReport report);
  bool empty() const noexcept { return reports_.empty(); }
  /// Findings that were over the limit.
  std::uint64_t dropped() const noexcept { return dropped_; }
  /// All of them, in the order found.
  std::vector<CpuReport> take();

 private:
  std::size_t limit_;
  std::uint64_t dropped_ = 0;
  std::vector<CpuReport> reports_;
  std::map<FindingKey, std::size_t> by_key_;
};

}  // namespace moegen::cpu
