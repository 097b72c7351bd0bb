// SPDX-License-Identifier: Apache-2.0
// PlanBuilder: how a family writes down its decisions, each with its origin.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <moegen/config.hpp>
#include <moegen/plan.hpp>

namespace moegen {

/// Collects the decisions of one Plan. `field` values say "config" or "default" by asking the config whether its text
/// gave the field; `derived` values carry their reason.
class PlanBuilder {
 public:
  PlanBuilder(const Config& config, std::string_view kernel, const Arch& arch);

  /// A value taken from the config field at `pointer`.
  void field(std::string_view name, Value value, std::string_view pointer);
  /// A dtype taken from the config field at `pointer`; `name` ends in "_dtype" and becomes a type in Params.
  void dtype(std::string_view name, Dtype value, std::string_view pointer);
  /// A value that moegen chose.
  void derived(std::string_view name, Value value, std::string reason);
  /// A value that moegen chose and only the host needs.
  void host(std::string_view name, Value value, std::string reason);
  void entry(EntryPlan entry) { plan_.entries.push_back(std::move(entry)); }
  void expression(const ExpressionConfig& expression) { plan_.expressions.push_back(expression); }

  /// The finished plan. `Args` is the family's argument struct.
  template <class Args>
  Plan finish(int launch_abi) && {
    plan_.launch_abi = launch_abi;
    plan_.args_bytes = sizeof(Args);
    return std::move(plan_);
  }

 private:
  const Config& config_;
  Plan plan_;
};

}  // namespace moegen
