// SPDX-License-Identifier: Apache-2.0
// Plan as a value: looking decisions up, and its two written forms.
#include <moegen/plan.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <moegen/error.hpp>

namespace moegen {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
const T& find_value(const Plan& plan, std::string_view name) {
  for (const Decision& decision : plan.decisions)
    if (decision.name == name)
      if (const T* value = std::get_if<T>(&decision.value)) return *value;
  throw Error(ErrorCode::internal, fmt::format("plan of '{}' has no such decision: '{}'", plan.kernel, name));
}

Json to_json_value(const Value& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json to_json_value(const EntryPlan& entry) {
  return {{"name", entry.name},
          {"variant", entry.variant},
          {"threads", entry.threads},
          {"cluster", entry.cluster},
          {"dynamic_shared_bytes", entry.dynamic_shared_bytes},
          {"cooperative", entry.cooperative},
          {"dependent_launch", entry.dependent_launch}};
}

Json to_json_value(const ExpressionConfig& expression) {
  Json inputs = Json::array();
  for (const ExpressionInput& input : expression.inputs)
    inputs.push_back({{"name", input.name}, {"dtype", to_string(input.dtype)}, {"shape", input.shape}});
  return {{"text", expression.text}, {"inputs", std::move(inputs)}};
}

template <class List>
Json to_json_list(const List& list) {
  Json array = Json::array();
  for (const auto& item : list) array.push_back(to_json_value(item));
  return array;
}

std::string spell(const Value& value) {
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  return to_json_value(value).dump();
}

}  // namespace

std::string_view to_string(Origin origin) noexcept {
  switch (origin) {
    case Origin::config: return "config";
    case Origin::tuned: return "tuned record";
    case Origin::derived: return "derived";
    case Origin::standard: return "default";
  }
  return "default";
}

std::int64_t Plan::integer(std::string_view name) const { return find_value<std::int64_t>(*this, name); }
bool Plan::boolean(std::string_view name) const { return find_value<bool>(*this, name); }
const std::string& Plan::text(std::string_view name) const { return find_value<std::string>(*this, name); }

std::string Plan::to_json() const {
  Json decisions_json = Json::object();
  for (const Decision& decision : decisions) {
    Json& row = decisions_json[decision.name] = {{"value", to_json_value(decision.value)},
                                                 {"origin", to_string(decision.origin)}};
    if (!decision.reason.empty()) row["reason"] = decision.reason;
  }
  Json root = {{"family", family},
               {"kernel", kernel},
               {"arch", arch.name},
               {"config", config_name},
               {"launch_abi", launch_abi},
               {"args_bytes", args_bytes},
               {"decisions", std::move(decisions_json)},
               {"entries", to_json_list(entries)},
               {"expressions", to_json_list(expressions)}};
  if (parameter_bytes != 0) root["parameter"] = {{"name", parameter}, {"bytes", parameter_bytes}};
  return root.dump(2) + "\n";
}

std::string Plan::explain() const {
  std::size_t name_width = 0, value_width = 0;
  for (const Decision& decision : decisions) {
    name_width = std::max(name_width, decision.name.size());
    value_width = std::max(value_width, spell(decision.value).size());
  }
  std::string out = fmt::format("{} of {} for {}\n", kernel, config_name, arch.name);
  for (const Decision& decision : decisions)
    out += fmt::format("  {:<{}}  {:>{}}  {:<12}  {}\n", decision.name, name_width, spell(decision.value), value_width,
                       to_string(decision.origin), decision.reason);
  for (const EntryPlan& entry : entries)
    out += fmt::format("  entry {} ({}): {} threads, cluster up to {}, {} bytes of dynamic shared memory{}{}\n",
                       entry.name, entry.variant, entry.threads, entry.cluster, entry.dynamic_shared_bytes,
                       entry.cooperative ? ", cooperative" : "", entry.dependent_launch ? ", dependent launch" : "");
  for (const Rejected& one : rejected) out += fmt::format("  not taken: {}: {}\n", one.what, one.reason);
  return out;
}

}  // namespace moegen
