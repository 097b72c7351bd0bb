// SPDX-License-Identifier: Apache-2.0
// moegen build: kernels into the cache or into a pack, in parallel.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "cache/entry.hpp"
#include "cache/pack.hpp"
#include "command.hpp"
#include "exit_code.hpp"
#include "support/engine_options.hpp"
#include "support/interrupt.hpp"
#include "support/json_output.hpp"
#include "support/parallel.hpp"
#include "support/progress.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"

namespace moegen::cli {
namespace {

struct Request {
  Selection selection;
  std::string pack, target = "cuda";
  std::optional<std::int64_t> threads;
  bool check = false, json = false;
};

struct Built {
  BuildReport report;
  std::vector<std::shared_ptr<const cache::Entry>> entries;  ///< only where a pack is to be written
};

/// What is compiled by itself: a part of the kernel of a job.
struct Part {
  std::size_t job;
  Plan plan;
  Built built;
};

/// What a kernel needs at most, over its entry points: the numbers that a table has room for.
struct Totals {
  int registers = 0, spill_bytes = 0, shared_bytes = 0;
};

Totals totals(const BuildReport& report) {
  Totals most;
  for (const EntryResources& entry : report.resources) {
    most.registers = std::max(most.registers, entry.registers);
    most.spill_bytes = std::max(most.spill_bytes, entry.spill_store_bytes + entry.spill_load_bytes);
    most.shared_bytes = std::max(most.shared_bytes, entry.shared_bytes);
  }
  return most;
}

/// Two configs may share a kernel; the second one finds it in memory, which to the user is as good as cached.
std::string_view status_text(BuildStatus status) {
  return to_string(status == BuildStatus::memory ? BuildStatus::cached : status);
}

unsigned threads_of(const Request& request) {
  return request.threads ? static_cast<unsigned>(std::min<std::int64_t>(*request.threads, 1024)) : available_cores();
}

std::vector<Part> parts_of(const Engine& engine, const std::vector<Job>& jobs) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    for (Plan& plan : engine.parts(make_plan(jobs[i].config, jobs[i].kernel, *jobs[i].arch)))
      parts.push_back({i, std::move(plan), {}});
  return parts;
}

/// A kernel takes as long as the slowest of its parts, which are compiled side by side.
void add_part(BuildReport& kernel, BuildReport part) {
  kernel.status = std::min(kernel.status, part.status);
  kernel.milliseconds = std::max(kernel.milliseconds, part.milliseconds);
  kernel.cubin_bytes += part.cubin_bytes;
  kernel.resources.insert(kernel.resources.end(), part.resources.begin(), part.resources.end());
  kernel.keys.insert(kernel.keys.end(), part.keys.begin(), part.keys.end());
}

/// The kernel of each job from its parts, which lie in the order of jobs.
std::vector<Built> by_job(std::vector<Part> parts, std::size_t num_jobs) {
  std::vector<Built> built(num_jobs);
  for (Part& part : parts) {
    Built& kernel = built[part.job];
    kernel.entries.insert(kernel.entries.end(), part.built.entries.begin(), part.built.entries.end());
    if (kernel.report.keys.empty())
      kernel.report = std::move(part.built.report);
    else
      add_part(kernel.report, std::move(part.built.report));
  }
  return built;
}

/// The thread pool ends at the next part after a signal: what is being compiled is kept, and no claim or temporary file
/// stays behind.
std::vector<Built> build_all(const std::vector<Job>& jobs, const Request& request) {
  Progress progress;
  EngineOptions options = engine_options(progress);
  if (request.target == "cpu") options.target = Target::cpu;
  options.cpu.check = request.check;
  Engine engine(std::move(options));
  std::vector<Part> parts = parts_of(engine, jobs);
  std::atomic<std::size_t> done{0};
  const DeferInterrupts until_stored;
  for_each_parallel(parts.size(), threads_of(request), [&](std::size_t i) {
    auto& [job, plan, built] = parts[i];
    progress.show(done + 1, parts.size(), fmt::format("{} {}", jobs[job].kernel, jobs[job].arch->name));
    built.report = engine.build(plan);
    if (!request.pack.empty()) built.entries = engine.entries(plan);
    ++done;
  });
  check_interrupt();
  return by_job(std::move(parts), jobs.size());
}

/// A rename would replace a device or fail on a folder only after everything has been compiled.
void check_pack_path(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw Error(
      ErrorCode::config,
      fmt::format("build: --out: '{}' is not a regular file; allowed a new file or one to replace", path.string()));
}

void write_pack_file(const std::filesystem::path& path, const std::vector<Built>& built) {
  std::vector<cache::Entry> entries;
  for (const Built& each : built)
    for (const auto& entry : each.entries) entries.push_back(*entry);
  const DeferInterrupts until_renamed;
  cache::write_pack(path, entries);
}

/// A host's registers and spills are its own affair.
bool on_gpu(const BuildReport& report) { return report.target == "cuda"; }

Json as_json(const std::vector<Built>& built) {
  Json kernels = Json::array();
  for (const auto& [report, entries] : built) {
    const Totals most = totals(report);
    const auto of_gpu = [&](int number) { return on_gpu(report) ? Json(number) : Json(nullptr); };
    kernels.push_back({{"kernel", report.kernel},
                       {"arch", report.arch},
                       {"target", report.target},
                       {"status", status_text(report.status)},
                       {"ms", report.milliseconds},
                       {"bytes", report.cubin_bytes},
                       {"registers", of_gpu(most.registers)},
                       {"spill_bytes", of_gpu(most.spill_bytes)},
                       {"shared_bytes", most.shared_bytes},
                       {"keys", report.keys}});
  }
  return {{"kernels", std::move(kernels)}};
}

std::string as_text(const std::vector<Job>& jobs, const std::vector<Built>& built) {
  using enum Table::Align;
  Table table({{"config"},
               {"kernel"},
               {"arch"},
               {"ms", right},
               {"bytes", right},
               {"registers", right},
               {"spills", right},
               {"status"}});
  for (std::size_t i = 0; i < built.size(); ++i) {
    const BuildReport& report = built[i].report;
    const Totals most = totals(report);
    const auto of_gpu = [&](int number) { return on_gpu(report) ? std::to_string(number) : "-"; };
    table.add({jobs[i].config->name, report.kernel, report.arch, fmt::format("{:.1f}", report.milliseconds),
               std::to_string(report.cubin_bytes), of_gpu(most.registers), of_gpu(most.spill_bytes),
               std::string(status_text(report.status))});
  }
  return table.text();
}

}  // namespace

int run_build(const Arguments& arguments) {
  Request request;
  Options options("build", "Compile kernels into the cache, or into one relocatable pack file.");
  request.selection.declare(options);
  options.output("-o,--out", request.pack, "PACK", "also write the kernels as one file, for MOEGEN_PACKS");
  options.choice("--target", request.target, {"cuda", "cpu"},
                 "cubins for GPUs, or objects for this machine's processor");
  options.flag("--check", request.check, "cpu: with the memory and race checks");
  options.integer("-j,--jobs", request.threads, 1, "N", "compile N parts of kernels at a time (default: the cores)");
  options.json(request.json);
  if (!options.parse(arguments)) return kOk;
  if (request.check && request.target != "cpu")
    throw Error(ErrorCode::config, "build: --check is for --target cpu; allowed without it");
  check_pack_path(request.pack);

  const std::vector<Config> configs = read_configs(request.selection.configs);
  const std::vector<Job> jobs = select_jobs(configs, request.selection);
  if (request.selection.kernels.empty()) note_missing_kernels(configs);
  const std::vector<Built> built = build_all(jobs, request);
  if (!request.pack.empty()) write_pack_file(request.pack, built);
  if (request.json) {
    print_json(as_json(built));
  } else {
    print(as_text(jobs, built));
  }
  return kOk;
}

}  // namespace moegen::cli
