// SPDX-License-Identifier: Apache-2.0
#include "verify/layer.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "cuda/device.hpp"
#include "verify/finalize_problem.hpp"
#include "verify/grouped_matmul_problem.hpp"
#include "verify/indices_problem.hpp"
#include "verify/permute_problem.hpp"
#include "verify/router_problem.hpp"
#include "verify/scale.hpp"
#include "verify/schedules.hpp"

namespace moegen::verify {
namespace {

double gpu_us(const Kernel& kernel, const void* args, std::size_t bytes, int family) {
  const cuda::Stream stream;
  const cuda::Event start, end;
  kernel.run(args, bytes, family, stream.get());
  start.record(stream);
  kernel.run(args, bytes, family, stream.get());
  end.record(stream);
  end.synchronize();
  return 1000.0 * static_cast<double>(end.milliseconds_since(start));
}

double cpu_us(const Kernel& kernel, const void* args, std::size_t bytes, int family) {
  const auto start = std::chrono::steady_clock::now();
  kernel.run(args, bytes, family, nullptr);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

/// Runs, times and compares; what the kernel does wrong goes into the row.
template <class Args, class Problem>
LayerRow run_row(const Kernel& kernel, const Args& args, Problem& problem, const std::string& checked) {
  LayerRow row{.kernel = kernel.plan().kernel, .us = 0, .checked = checked, .wrong = "", .details = ""};
  problem.reset();
  try {
    const auto timed = kernel.target() == Target::cpu ? cpu_us : gpu_us;
    row.us = timed(kernel, &args, sizeof(Args), Args::kFamily);
    row.wrong = problem.compare().value_or("");
  } catch (const KernelError& error) {
    row.wrong = error.what();
    row.details = error.text();
  }
  return row;
}

/// The first schedule's row, or that of the first one that went wrong.
template <class Args, class Problem>
LayerRow run_schedules(const std::vector<Kernel>& kernels, const Args& args, Problem& problem,
                       const std::string& checked) {
  LayerRow first = run_row(kernels.front(), args, problem, checked);
  for (std::size_t i = 1; i < kernels.size() && first.wrong.empty(); ++i) {
    LayerRow next = run_row(kernels[i], args, problem, checked);
    if (!next.wrong.empty()) first = std::move(next);
  }
  return first;
}

/// permute on what create_indices wrote.
LayerRow run_permute(Engine& engine, const Config& config, const LayerOptions& options, const IndicesProblem& indices) {
  const Kernel kernel = engine.get(config, "permute");
  const PermuteProblem problem(kernel, config, indices.want(), {.seed = options.seed + 1});
  permute::Args args = problem.args();
  args.restore = indices.args().restore_token_order;
  args.order = indices.args().token_expert_order;
  args.expert_start_indices = indices.args().expert_start_indices;
  return run_schedules(
      with_schedules(kernel, options.schedules), args, problem,
      fmt::format("{} x {} rows, exactly", indices.want().expert_start_indices.back(), config->expert_hidden));
}

/// The groups that create_indices makes, as a case of grouped_matmul.
GroupedMatmulCase matmul_case(const reference::Indices& indices, std::uint64_t seed) {
  GroupedMatmulCase groups;
  groups.label = "as create_indices leaves them";
  groups.ids = indices.expert_ids;
  groups.seed = seed;
  for (std::size_t i = 0; i + 1 < indices.expert_start_indices.size(); ++i)
    groups.counts.push_back(std::int64_t{indices.expert_start_indices[i + 1]} - indices.expert_start_indices[i]);
  return groups;
}

/// One of the two matmuls, over the groups that create_indices wrote.
LayerRow run_matmul(Engine& engine, const Config& config, const std::string& name, const LayerOptions& options,
                    const IndicesProblem& indices) {
  const Kernel kernel = engine.get(config, name);
  GroupedMatmulProblem problem(kernel.target(), matmul_spec(kernel, config),
                               matmul_case(indices.want(), options.seed + 2));
  grouped_matmul::Args args = problem.args();
  args.a_offsets = indices.args().expert_start_indices;
  args.expert_ids = indices.args().expert_ids;
  return run_schedules(with_schedules(kernel, options.schedules), args, problem,
                       fmt::format("{} x {} sums of {}, within the bounds of their dtypes", args.num_rows,
                                   problem.spec().output_columns, problem.spec().depth));
}

/// The router, on random logits. `problem` keeps what it wrote.
void run_router(const Kernel& route, const LayerOptions& options, const RouterProblem& problem, LayerReport& report) {
  report.rows.push_back(run_schedules(with_schedules(route, options.schedules), problem.args(), problem,
                                      fmt::format("{} tokens, every slot by the rules", options.num_tokens)));
}

/// True if create_indices reads ids of four bytes, as the router writes them.
bool reads_routers_ids(const ConfigFields& fields) {
  return fields.indices.ids == Dtype::int32 || fields.indices.ids == Dtype::uint32;
}

void run_kernels(Engine& engine, const Config& config, const LayerOptions& options, LayerReport& report) {
  const ConfigFields& fields = config.fields();
  const Kernel route = engine.get(config, "router"), group = engine.get(config, "create_indices"),
               combine = engine.get(config, "finalize");
  const RouterProblem routed(route.target(), config, {.num_tokens = options.num_tokens, .seed = options.seed});
  run_router(route, options, routed, report);
  if (report.failed()) return;
  const std::vector<std::int32_t> chosen = routed.ids();
  const std::vector<std::int64_t> ids(chosen.begin(), chosen.end());
  const IndicesProblem indices(group, config, ids);
  create_indices::Args group_args = indices.args();
  if (reads_routers_ids(fields)) group_args.topk_ids = routed.args().expert_indices;
  report.rows.push_back(run_schedules(with_schedules(group, options.schedules), group_args, indices,
                                      fmt::format("{} pairs, every table, exactly", ids.size())));
  if (report.failed()) return;
  report.rows.push_back(run_permute(engine, config, options, indices));
  for (const char* matmul : {"grouped_matmul.up", "grouped_matmul.down"}) {
    if (report.failed()) return;
    report.rows.push_back(run_matmul(engine, config, matmul, options, indices));
  }
  if (report.failed()) return;
  const reference::Indices& want = indices.want();
  const std::vector<char> weights = routed.weights();
  const FinalizeProblem sums(combine.target(), config,
                             {want.restore_token_order, ids, std::int64_t{want.expert_start_indices.back()}},
                             {.seed = options.seed, .weights = &weights});
  finalize::Args args = sums.args();
  args.restore = indices.args().restore_token_order;
  args.weights = routed.args().expert_weights;
  report.rows.push_back(run_schedules(with_schedules(combine, options.schedules), args, sums,
                                      fmt::format("{} x {} sums, within half an ulp and the bound of float32 sums",
                                                  options.num_tokens, fields.expert_hidden)));
}

}  // namespace

bool LayerReport::failed() const {
  return std::ranges::any_of(rows, [](const LayerRow& row) { return !row.wrong.empty(); });
}

LayerReport run_layer(Engine& engine, const Config& config, const LayerOptions& options) {
  LayerReport report;
  report.num_tokens = options.num_tokens;
  if (engine.options().target == Target::cpu) {
    const Scaled scaled = scaled_for_cpu(config);
    report.device = fmt::format("CPU target, as {}", engine.options().cpu.arch);
    report.scaled = scaled.changes;
    run_kernels(engine, scaled.config, options, report);
    return report;
  }
  if (cuda::num_devices() == 0)
    throw Error(ErrorCode::unsupported,
                "run needs a CUDA device and found none; 'moegen run --target cpu' needs none, "
                "and 'moegen doctor' says what is missing");
  const cuda::PrimaryContext context;
  report.device = cuda::device_info(context.ordinal()).name;
  run_kernels(engine, config, options, report);
  return report;
}

}  // namespace moegen::verify
