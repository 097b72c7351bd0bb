// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/reports.hpp"

#include <utility>

namespace moegen::cpu {

bool Reports::wants(const FindingKey& key) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    ++reports_[known->second].repeats;
    return false;
  }
  if (reports_.size() < limit_) return true;
  ++dropped_;
  return false;
}

void Reports::add(const FindingKey& key, CpuReport report) {
  by_key_.emplace(key, reports_.size());
  reports_.push_back(std::move(report));
}

std::vector<CpuReport> Reports::take() {
  by_key_.clear();
  return std::exchange(reports_, {});
}

}  // namespace moegen::cpu
