// SPDX-License-Identifier: Apache-2.0
// moegen bench: times of kernels on this machine's GPU, beside the roof measured in the same run.
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/bench.hpp"
#include "command.hpp"
#include "exit_code.hpp"
#include "support/engine_options.hpp"
#include "support/interrupt.hpp"
#include "support/json_output.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"

namespace moegen::cli {
namespace {

struct Request {
  Selection selection;
  std::string config, target = "cuda";
  std::vector<std::int64_t> num_tokens;
  std::optional<std::int64_t> seed;
  bool json = false;
};

bench::Report measure(const Request& request) {
  const Config config = Config::from_file(request.config);
  Progress progress;
  bench::Options options;
  options.kernels = select_kernels(config, request.selection.kernels);
  if (request.selection.kernels.empty()) note_missing_kernels({config});
  options.num_tokens = request.num_tokens;
  if (request.seed) options.seed = static_cast<std::uint64_t>(*request.seed);
  const std::size_t sizes = options.num_tokens.empty() ? config->tune.num_tokens.size() : options.num_tokens.size();
  std::size_t row = 0;
  options.progress = [&](const std::string& kernel, std::int64_t num_tokens) {
    check_interrupt();
    progress.show(++row, options.kernels.size() * sizes, fmt::format("{}: {} tokens", kernel, num_tokens));
  };
  Engine engine(engine_options(progress));
  const DeferInterrupts between_rows;
  bench::Report report = bench::bench(engine, config, options);
  check_interrupt();
  return report;
}

Json as_json(const bench::Report& report) {
  Json rows = Json::array();
  for (const bench::Row& row : report.rows) {
    rows.push_back({{"kernel", row.kernel},
                    {"num_tokens", row.num_tokens},
                    {"us", row.us},
                    {"tflops", row.tflops},
                    {"gbps", row.gbps},
                    {"roof_share", row.roof_share},
                    {"run_host_ns", row.run_host_ns},
                    {"bare_host_ns", row.bare_host_ns}});
  }
  return {{"device", report.device}, {"roofs", {{"copy_gbps", report.copy_gbps}}}, {"rows", std::move(rows)}};
}

std::string as_text(const bench::Report& report) {
  using enum Table::Align;
  Table table({{"kernel"},
               {"tokens", right},
               {"us", right},
               {"TFLOP/s", right},
               {"GB/s", right},
               {"of roof", right},
               {"launch ns", right},
               {"bare ns", right}});
  for (const bench::Row& row : report.rows) {
    table.add({row.kernel, std::to_string(row.num_tokens), fmt::format("{:.2f}", row.us),
               row.tflops > 0 ? fmt::format("{:.1f}", row.tflops) : "-", fmt::format("{:.0f}", row.gbps),
               fmt::format("{:.0f}%", 100 * row.roof_share), fmt::format("{:.0f}", row.run_host_ns),
               fmt::format("{:.0f}", row.bare_host_ns)});
  }
  return fmt::format("device: {}\nroof: {:.0f} GB/s copied\n{}", report.device, report.copy_gbps, table.text());
}

}  // namespace

int run_bench(const Arguments& arguments) {
  Request request;
  Options options("bench", "Time kernels by CUDA graph replay, beside the copy bandwidth of the same run.");
  options.positional("CONFIG", request.config, "a config file; '-' reads standard input");
  request.selection.declare_kernels(options);
  options.integers("--num-tokens", request.num_tokens, 1, "LIST", "e.g. 1,128,4096 (default: tune.num_tokens)");
  options.choice("--target", request.target, {"cuda", "cpu"},
                 "where to run; the CPU target has no time worth measuring");
  options.integer("--seed", request.seed, 0, "N", "seed of the random inputs (default: 1)");
  options.json(request.json);
  if (!options.parse(arguments)) return kOk;
  if (request.target == "cpu")
    throw Error(
        ErrorCode::unsupported,
        "bench: the CPU target models what kernels do, not how long they take; allowed --target cuda, and 'moegen "
        "verify' and 'moegen run' have --target cpu");

  const bench::Report report = measure(request);
  if (request.json) {
    print_json(as_json(report));
  } else {
    print(as_text(report));
  }
  return kOk;
}

}  // namespace moegen::cli
