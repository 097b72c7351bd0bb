// SPDX-License-Identifier: Apache-2.0
// moegen plan: the decisions behind each kernel.
#include <string>
#include <vector>

#include <fmt/core.h>

#include <moegen/plan.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/json_output.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

struct Request {
  Selection selection;
  bool explain = false, json = false;
};

std::vector<Plan> plans_of(const std::vector<Job>& jobs) {
  std::vector<Plan> plans;
  for (const Job& job : jobs) plans.push_back(make_plan(job.config, job.kernel, *job.arch));
  return plans;
}

Json as_json(const std::vector<Plan>& plans) {
  Json list = Json::array();
  for (const Plan& plan : plans) list.push_back(Json::parse(plan.to_json()));
  return {{"plans", std::move(list)}};
}

std::string value_text(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  return Json(std::get<double>(value)).dump();
}

/// One line: enough to see what was chosen; --explain says why.
std::string summary(const Plan& plan) {
  std::string text = fmt::format("{} {}:", plan.kernel, plan.arch.name);
  for (const Decision& decision : plan.decisions) {
    text += fmt::format(" {}={}", decision.name, value_text(decision.value));
  }
  return text + "\n";
}

std::string as_text(const std::vector<Plan>& plans, bool explain) {
  std::string text;
  for (const Plan& plan : plans) {
    if (explain && !text.empty()) text += "\n";
    text += explain ? plan.explain() : summary(plan);
  }
  return text;
}

}  // namespace

int run_plan(const Arguments& arguments) {
  Request request;
  Options options("plan", "Every decision that turns a config into kernels.");
  request.selection.declare(options);
  options.flag("--explain", request.explain, "a table with the origin of and the reason for each value");
  options.json(request.json);
  if (!options.parse(arguments)) return kOk;

  const std::vector<Config> configs = read_configs(request.selection.configs);
  const std::vector<Plan> plans = plans_of(select_jobs(configs, request.selection));
  if (request.selection.kernels.empty()) note_missing_kernels(configs);
  if (request.json) {
    print_json(as_json(plans));
  } else {
    print(as_text(plans, request.explain));
  }
  return kOk;
}

}  // namespace moegen::cli
