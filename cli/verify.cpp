// SPDX-License-Identifier: Apache-2.0
// moegen verify: kernels against their fp64 reference on this machine's GPU or on the CPU target.
#include <optional>
#include <string>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/engine_options.hpp"
#include "support/interrupt.hpp"
#include "support/json_output.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"
#include "support/target_options.hpp"
#include "verify/verify.hpp"

namespace moegen::cli {
namespace {

constexpr std::int64_t kCpuBudgetSeconds = 60;

struct Request {
  Selection selection;
  std::string config;
  TargetOptions target;
  std::optional<std::int64_t> seed, budget_s;
  bool quick = false, json = false;
};

verify::Report run_cases(const Request& request) {
  Progress progress;
  EngineOptions engine_setup = engine_options(progress);
  request.target.apply("verify", engine_setup);
  const Config config = Config::from_file(request.config);
  verify::Options options;
  options.kernels = select_kernels(config, request.selection.kernels);
  if (request.selection.kernels.empty()) note_missing_kernels({config});
  options.quick = request.quick;
  if (request.seed) options.seed = static_cast<std::uint64_t>(*request.seed);
  options.progress = [&](const std::string& kernel, const std::string& name, std::size_t index, std::size_t count) {
    check_interrupt();
    progress.show(index + 1, count, fmt::format("{}: {}", kernel, name));
  };
  if (request.target.on_cpu()) {
    options.schedules = request.target.schedules();
    options.budget_s = static_cast<double>(request.budget_s.value_or(kCpuBudgetSeconds));
  } else if (request.budget_s) {
    options.budget_s = static_cast<double>(*request.budget_s);
  }
  Engine engine(std::move(engine_setup));
  const DeferInterrupts between_cases;
  verify::Report report = verify::verify(engine, config, options);
  check_interrupt();
  return report;
}

/// False where the budget did not suffice for one case of a kernel: nothing is then known of it.
bool has_run(const verify::Report& report) {
  bool all = true;
  for (const verify::KernelVerdict& verdict : report.kernels) {
    if (verdict.cases > 0) continue;
    note(fmt::format("verify: {}: the budget ended before the first case; allowed a larger --budget", verdict.kernel));
    all = false;
  }
  return all;
}

Json as_json(const verify::Report& report) {
  Json kernels = Json::array();
  for (const verify::KernelVerdict& verdict : report.kernels) {
    kernels.push_back({{"kernel", verdict.kernel},
                       {"cases", verdict.cases},
                       {"failed", verdict.failed},
                       {"left_out", verdict.left_out},
                       {"first_failure", verdict.first_failure},
                       {"details", verdict.details}});
  }
  return {{"device", report.device},
          {"scaled", report.scaled},
          {"cases", report.cases},
          {"failed", report.failed},
          {"kernels", std::move(kernels)}};
}

std::string as_text(const verify::Report& report) {
  using enum Table::Align;
  Table table({{"kernel"}, {"cases", right}, {"failed", right}, {"left out", right}, {"first failure"}});
  for (const verify::KernelVerdict& verdict : report.kernels) {
    table.add({verdict.kernel, std::to_string(verdict.cases), std::to_string(verdict.failed),
               std::to_string(verdict.left_out), verdict.details.empty() ? verdict.first_failure : "see below"});
  }
  std::string text = fmt::format("device: {}\n", report.device);
  if (!report.scaled.empty()) text += fmt::format("narrowed for the CPU target: {}\n", fmt::join(report.scaled, ", "));
  text += table.text();
  for (const verify::KernelVerdict& verdict : report.kernels)
    if (!verdict.details.empty()) text += fmt::format("{}\n{}", verdict.first_failure, verdict.details);
  return text;
}

}  // namespace

int run_verify(const Arguments& arguments) {
  Request request;
  Options options("verify", "Run kernels on ordinary and hostile inputs and compare every element with fp64.");
  options.positional("CONFIG", request.config, "a config file; '-' reads standard input");
  request.selection.declare_kernels(options);
  request.target.declare(options);
  options.integer("--budget", request.budget_s, 1, "SECONDS",
                  "begin no case after that (default: 60 with cpu, else none)");
  options.flag("--quick", request.quick, "a smaller set of cases");
  options.integer("--seed", request.seed, 0, "N", "seed of the random inputs (default: 1)");
  options.json(request.json);
  if (!options.parse(arguments)) return kOk;

  const verify::Report report = run_cases(request);
  if (request.json) {
    print_json(as_json(report));
  } else {
    print(as_text(report));
  }
  return report.failed == 0 && has_run(report) ? kOk : kCheckFailed;
}

}  // namespace moegen::cli
