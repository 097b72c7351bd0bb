// SPDX-License-Identifier: Apache-2.0
#include "verify/verify.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include <moegen/error.hpp>
#include <moegen/shapes.hpp>

#include "cuda/device.hpp"
#include "verify/activation_case.hpp"
#include "verify/finalize_case.hpp"
#include "verify/grouped_matmul_case.hpp"
#include "verify/indices_case.hpp"
#include "verify/permute_case.hpp"
#include "verify/quantize_case.hpp"
#include "verify/router_case.hpp"
#include "verify/scale.hpp"
#include "verify/schedules.hpp"

namespace moegen::verify {
namespace {

// Cases above this would spend minutes on the host; they are tests/gpu's affair.
constexpr std::int64_t kMostHostBytes = std::int64_t{1} << 30;

/// What is verified, where and for how long.
struct Job {
  Engine& engine;
  const Config& config;
  const Options& options;
  bool on_cpu() const { return engine.options().target == Target::cpu; }
};

std::vector<IndicesCase> indices_cases(const Job& job) {
  std::vector<std::int64_t> counts = {0, 1, 11, 197};
  if (job.on_cpu())
    counts.push_back(kMostCpuTokens * job.config->num_slots());
  else
    counts.insert(counts.end(), {2500, 20660, 100000, 524288});
  std::vector<IndicesCase> cases;
  for (std::int64_t pairs : counts)
    for (IdPattern pattern : all_id_patterns())
      if (!job.options.quick || pairs <= 2500) cases.push_back({pairs, pattern, job.options.seed + cases.size()});
  return cases;
}

/// Sparse rows lie gigabytes apart: only a GPU's memory is worth that.
bool is_worth_it(const Job& job, const FinalizeCase& c) {
  const bool sparse = c.pattern == RowPattern::sparse;
  if (sparse && (c.num_tokens != 7 || job.on_cpu() || job.options.quick)) return false;
  if (job.options.quick && c.num_tokens > 128) return false;
  return host_bytes(job.config, c) <= kMostHostBytes;
}

std::vector<FinalizeCase> finalize_cases(const Job& job) {
  std::vector<std::int64_t> counts = {0, 1, 7, 128};
  if (job.on_cpu())
    counts.push_back(kMostCpuTokens);
  else
    counts.insert(counts.end(), {4096, 16384});
  std::vector<FinalizeCase> cases;
  for (std::int64_t tokens : counts)
    for (RowPattern pattern : all_row_patterns()) {
      const FinalizeCase next{tokens, pattern, job.options.seed + cases.size()};
      if (is_worth_it(job, next)) cases.push_back(next);
    }
  return cases;
}

std::vector<GroupedMatmulCase> matmul_cases(const Job& job) {
  std::vector<std::int64_t> counts = {0, 1, 7, 33};
  if (!job.on_cpu()) counts.insert(counts.end(), {130, 1000});
  std::vector<GroupedMatmulCase> cases;
  for (std::int64_t rows : counts)
    for (GroupPattern pattern : all_group_patterns())
      if (!job.options.quick || rows <= 33)
        cases.push_back(make_matmul_case(job.config.fields(), pattern, rows, job.options.seed + cases.size()));
  return cases;
}

// Cases of a kernel of rows: 10 hostile kinds of them fit 13 rows, the larger counts fill blocks.
template <class Case>
std::vector<Case> row_cases(const Job& job) {
  std::vector<std::int64_t> counts = {0, 1, 13, 130};
  if (job.on_cpu())
    counts.push_back(kMostCpuTokens);
  else
    counts.insert(counts.end(), {4096, 20000});
  std::vector<Case> cases;
  for (std::int64_t rows : counts)
    for (RowsPattern pattern : kRowsPatterns) {
      const Case next{rows, pattern, job.options.seed + cases.size()};
      if (job.options.quick && rows > 130) continue;
      if (host_bytes(job.config, next) <= kMostHostBytes) cases.push_back(next);
    }
  return cases;
}

// Every pattern of ids, ordinary and hostile rows in turn.
std::vector<PermuteCase> permute_cases(const Job& job) {
  std::vector<std::int64_t> counts = {0, 1, 13, 130};
  if (!job.on_cpu()) counts.insert(counts.end(), {1025, 4096});
  std::vector<PermuteCase> cases;
  for (std::int64_t tokens : counts)
    for (IdPattern ids : all_id_patterns()) {
      const RowsPattern pattern = cases.size() % 2 == 0 ? RowsPattern::hostile : RowsPattern::ordinary;
      const PermuteCase next{tokens, ids, pattern, job.options.seed + cases.size()};
      if (job.options.quick && tokens > 130) continue;
      if (host_bytes(job.config, next) <= kMostHostBytes) cases.push_back(next);
    }
  return cases;
}

/// Every pattern of logits, with the biases in turn and rows both dense and apart.
std::vector<RouterCase> router_cases(const Job& job) {
  std::vector<std::int64_t> counts = {0, 1, 31, 33};
  if (job.on_cpu())
    counts.push_back(kMostCpuTokens);
  else
    counts.insert(counts.end(), {4097, 65537});
  std::vector<RouterCase> cases;
  for (std::int64_t tokens : counts)
    for (LogitPattern pattern : all_logit_patterns()) {
      if ((tokens < 31 || tokens > 257) && pattern != LogitPattern::ordinary && pattern != LogitPattern::mixed)
        continue;
      if (job.options.quick && tokens > 4097) continue;
      const std::size_t index = cases.size();
      RouterCase next;
      next.num_tokens = tokens;
      next.logits = pattern;
      next.bias = all_bias_patterns()[index % all_bias_patterns().size()];
      next.padding = std::array{0, 4, 1, 64}[index % 4];
      next.seed = job.options.seed + index;
      cases.push_back(next);
    }
  return cases;
}

using Clock = std::chrono::steady_clock;

/// When the kernel `index` of `count` has to have begun its last case.
std::optional<Clock::time_point> deadline(Clock::time_point start, double budget_s, std::size_t index,
                                          std::size_t count) {
  if (budget_s <= 0) return std::nullopt;
  const double share = budget_s * static_cast<double>(index + 1) / static_cast<double>(count);
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(share));
}

struct Failure {
  std::string line, details;
};

/// What to add to a failure's text under schedule `index` of those asked for; "" under the engine's own.
std::string describe(const Options& options, std::size_t index) {
  if (index >= options.schedules.size() || options.schedules[index].schedule == Schedule::fair) return "";
  return fmt::format(" (chaos, seed {})", options.schedules[index].seed);
}

/// Runs one case under one schedule.
template <class Case>
std::optional<Failure> attempt(const Kernel& kernel, const Config& config, const Case& c, const std::string& suffix) {
  try {
    auto wrong = run_case(kernel, config, c);
    if (!wrong) return std::nullopt;
    return Failure{*wrong + suffix, ""};
  } catch (const KernelError& error) {
    return Failure{fmt::format("{}{}: {}", c.name(), suffix, error.what()), error.text()};
  }
}

bool is_over(std::optional<Clock::time_point> end) { return end && Clock::now() > *end; }

/// Runs one case under all schedules and counts it; false if the time ended before all of them were run.
template <class Case>
bool run_schedules(const Job& job, const std::vector<Kernel>& kernels, const Case& c,
                   std::optional<Clock::time_point> end, KernelVerdict& verdict) {
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (is_over(end)) return false;
    auto failure = attempt(kernels[i], job.config, c, describe(job.options, i));
    if (!failure) continue;
    if (verdict.failed++ == 0) {
      verdict.first_failure = std::move(failure->line);
      verdict.details = std::move(failure->details);
    }
    break;
  }
  ++verdict.cases;
  return true;
}

template <class Case>
KernelVerdict run_cases(const Job& job, const std::string& name, const std::vector<Case>& cases,
                        std::optional<Clock::time_point> end) {
  const std::vector<Kernel> kernels = with_schedules(job.engine.get(job.config, name), job.options.schedules);
  KernelVerdict verdict;
  verdict.kernel = name;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (job.options.progress) job.options.progress(name, cases[i].name(), i, cases.size());
    if (run_schedules(job, kernels, cases[i], end, verdict)) continue;
    verdict.left_out = cases.size() - i;
    break;
  }
  return verdict;
}

KernelVerdict verify_kernel(const Job& job, const std::string& kernel, std::optional<Clock::time_point> end) {
  if (kernel == "router") return run_cases(job, kernel, router_cases(job), end);
  if (kernel == "create_indices") return run_cases(job, kernel, indices_cases(job), end);
  if (kernel == "permute") return run_cases(job, kernel, permute_cases(job), end);
  if (kernel == "activation") return run_cases(job, kernel, row_cases<ActivationCase>(job), end);
  if (kernel.starts_with("quantize.")) return run_cases(job, kernel, row_cases<QuantizeCase>(job), end);
  if (kernel == "finalize") return run_cases(job, kernel, finalize_cases(job), end);
  if (kernel.starts_with("grouped_matmul.")) return run_cases(job, kernel, matmul_cases(job), end);
  throw Error(ErrorCode::internal, "verify has no cases for kernel '" + kernel + "'");
}

void verify_kernels(const Job& job, Report& report) {
  const auto kernels = job.options.kernels.empty() ? available_kernels_of(job.config) : job.options.kernels;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    report.kernels.push_back(verify_kernel(job, kernels[i], deadline(start, job.options.budget_s, i, kernels.size())));
    report.cases += report.kernels.back().cases;
    report.failed += report.kernels.back().failed;
  }
}

}  // namespace

Report verify(Engine& engine, const Config& config, const Options& options) {
  Report report;
  if (engine.options().target == Target::cpu) {
    const Scaled scaled = scaled_for_cpu(config);
    report.device = fmt::format("CPU target, as {}", engine.options().cpu.arch);
    report.scaled = scaled.changes;
    verify_kernels({engine, scaled.config, options}, report);
    return report;
  }
  if (cuda::num_devices() == 0)
    throw Error(
        ErrorCode::unsupported,
        "verify needs a CUDA device and found none; 'moegen verify --target cpu' needs none, and 'moegen doctor' "
        "says what is missing");
  const cuda::PrimaryContext context;
  report.device = cuda::device_info(context.ordinal()).name;
  verify_kernels({engine, config, options}, report);
  return report;
}

}  // namespace moegen::verify
