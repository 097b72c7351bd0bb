// SPDX-License-Identifier: Apache-2.0
// moegen run: the layer once on this machine's GPU or on the CPU target, checked, with the time of each kernel.
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
#include "verify/layer.hpp"

namespace moegen::cli {
namespace {

struct Request {
  std::string config;
  TargetOptions target;
  std::optional<std::int64_t> num_tokens, seed;
  bool json = false;
};

verify::LayerReport run_once(const Request& request) {
  Progress progress;
  EngineOptions options = engine_options(progress);
  request.target.apply("run", options);
  const Config config = Config::from_file(request.config);
  note_missing_kernels({config});
  verify::LayerOptions layer;
  if (request.num_tokens) layer.num_tokens = *request.num_tokens;
  if (request.seed) layer.seed = static_cast<std::uint64_t>(*request.seed);
  if (request.target.on_cpu()) layer.schedules = request.target.schedules();
  Engine engine(std::move(options));
  return verify::run_layer(engine, config, layer);
}

Json as_json(const verify::LayerReport& report) {
  Json rows = Json::array();
  for (const verify::LayerRow& row : report.rows)
    rows.push_back({{"kernel", row.kernel},
                    {"us", row.us},
                    {"checked", row.checked},
                    {"wrong", row.wrong},
                    {"details", row.details}});
  return {{"device", report.device},
          {"num_tokens", report.num_tokens},
          {"scaled", report.scaled},
          {"failed", report.failed()},
          {"rows", std::move(rows)}};
}

std::string as_text(const verify::LayerReport& report) {
  using enum Table::Align;
  Table table({{"kernel"}, {"us", right}, {"result"}, {"checked"}});
  for (const verify::LayerRow& row : report.rows)
    table.add({row.kernel, fmt::format("{:.1f}", row.us), row.wrong.empty() ? "right" : "WRONG",
               row.wrong.empty()     ? row.checked
               : row.details.empty() ? row.wrong
                                     : "see below"});
  std::string text = fmt::format("device: {}, {} tokens\n", report.device, report.num_tokens);
  if (!report.scaled.empty()) text += fmt::format("narrowed for the CPU target: {}\n", fmt::join(report.scaled, ", "));
  text += table.text();
  for (const verify::LayerRow& row : report.rows) text += row.details;
  return text;
}

}  // namespace

int run_run(const Arguments& arguments) {
  Request request;
  Options options("run", "Run the layer once, each kernel on what the one before wrote, and check every output.");
  options.positional("CONFIG", request.config, "a config file; '-' reads standard input");
  options.integer("--num-tokens", request.num_tokens, 1, "N", "tokens (default: 16)");
  options.integer("--seed", request.seed, 0, "N", "seed of the random inputs (default: 1)");
  request.target.declare(options);
  options.json(request.json);
  options.notes("The CPU target narrows rows to three blocks of 128 and says so; it times a model, not a GPU.");
  if (!options.parse(arguments)) return kOk;

  const verify::LayerReport report = run_once(request);
  if (request.json) {
    print_json(as_json(report));
  } else {
    print(as_text(report));
  }
  return report.failed() ? kCheckFailed : kOk;
}

}  // namespace moegen::cli
