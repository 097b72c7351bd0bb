// SPDX-License-Identifier: Apache-2.0
#include "plan_builder.hpp"

namespace moegen {

PlanBuilder::PlanBuilder(const Config& config, std::string_view kernel, const Arch& arch) : config_(config) {
  plan_.family = kernel.substr(0, kernel.find('.'));
  plan_.kernel = kernel;
  plan_.arch = arch;
  plan_.config_name = config->name;
}

void PlanBuilder::field(std::string_view name, Value value, std::string_view pointer) {
  const Origin origin = config_.given(pointer) ? Origin::config : Origin::standard;
  plan_.decisions.push_back({std::string(name), std::move(value), origin, std::string(pointer), true});
}

void PlanBuilder::dtype(std::string_view name, Dtype value, std::string_view pointer) {
  field(name, std::string(to_string(value)), pointer);
}

void PlanBuilder::derived(std::string_view name, Value value, std::string reason) {
  plan_.decisions.push_back({std::string(name), std::move(value), Origin::derived, std::move(reason), true});
}

void PlanBuilder::host(std::string_view name, Value value, std::string reason) {
  plan_.decisions.push_back({std::string(name), std::move(value), Origin::derived, std::move(reason), false});
}

}  // namespace moegen
