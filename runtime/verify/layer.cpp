// SPDX-License-Identifier: Apache-2.0
#include "verify/layer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "cuda/device.hpp"
#include "verify/activation_problem.hpp"
#include "verify/finalize_problem.hpp"
#include "verify/grouped_matmul_problem.hpp"
#include "verify/indices_problem.hpp"
#include "verify/layer_check.hpp"
#include "verify/permute_problem.hpp"
#include "verify/quantize_problem.hpp"
#include "verify/router_problem.hpp"
#include "verify/row_values.hpp"
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

/// True if create_indices reads ids of four bytes, as the router writes them.
bool reads_routers_ids(const ConfigFields& fields) {
  return fields.indices.ids == Dtype::int32 || fields.indices.ids == Dtype::uint32;
}

std::vector<std::int64_t> widened(const std::vector<std::int32_t>& ids) { return {ids.begin(), ids.end()}; }

/// Rows as a kernel left them: where they are, and what they are.
struct Rows {
  const void* rows = nullptr;
  const void* scales = nullptr;
  std::int64_t scales_stride = 0;
  std::vector<char> host, host_scales;
  std::int64_t count = 0;
  RowsOnTheWay way;  ///< how they came to be what they are
};

Rows plain_rows(const void* rows, std::vector<char> host, std::int64_t count, bool rounded) {
  return {rows, nullptr, 0, std::move(host), {}, count, {.stored = rounded}};
}

/// What a kernel of rows wrote. The scale of scheme tensor is what it was given, and stands for itself.
Rows rows_of(const RowOutput& output, const void* scale, float global, std::int64_t count, RowsOnTheWay way) {
  Rows rows{output.rows(),
            output.scales(),
            output.scales_stride(),
            output.download_rows(),
            output.download_scales(),
            count,
            way};
  if (!way.quantised || rows.scales) return rows;
  rows.scales = scale;
  rows.host_scales.resize(sizeof global);
  std::memcpy(rows.host_scales.data(), &global, sizeof global);
  rows.way.global = global;
  return rows;
}

/// One pass through a layer. Each step reads what the step before left on the target, and is compared with its own
/// reference on a copy of just that.
class LayerRun {
 public:
  LayerRun(Engine& engine, const Config& config, const LayerOptions& options, LayerReport& report)
      : engine_(engine), config_(config), fields_(config_.fields()), options_(options), report_(report) {}

  void run() {
    using Step = void (LayerRun::*)();
    for (const Step step : {&LayerRun::route, &LayerRun::group, &LayerRun::bring_rows, &LayerRun::project_up,
                            &LayerRun::activate, &LayerRun::project_down, &LayerRun::combine, &LayerRun::check_layer}) {
      (this->*step)();
      if (report_.failed()) return;
    }
  }

 private:
  template <class Args, class Problem>
  void add_row(const Kernel& kernel, const Args& args, Problem& problem, const std::string& checked) {
    report_.rows.push_back(run_schedules(with_schedules(kernel, options_.schedules), args, problem, checked));
  }
  std::int64_t num_rows() const { return std::int64_t{indices_->want().expert_start_indices.back()}; }
  const std::uint32_t* row_count() const {
    return indices_->args().expert_start_indices + indices_->want().expert_ids.size();
  }

  void route();
  void group();
  void bring_rows();
  void permute_rows();
  void quantise(const char* name, std::int64_t rows_in_use, Rows& rows);
  std::unique_ptr<GroupedMatmulProblem> project(const Kernel& kernel, const Rows& rows, std::uint64_t seed);
  void project_up();
  void activate();
  void project_down();
  void combine();
  void check_layer();

  Engine& engine_;
  const Config config_;
  const ConfigFields& fields_;
  const LayerOptions& options_;
  LayerReport& report_;
  Tensor x_;
  std::vector<char> weights_, output_;
  std::vector<std::int64_t> ids_;
  std::unique_ptr<RouterProblem> router_;
  std::unique_ptr<IndicesProblem> indices_;
  std::unique_ptr<PermuteProblem> permute_;
  std::vector<std::unique_ptr<QuantizeProblem>> quantize_;
  std::unique_ptr<GroupedMatmulProblem> up_, down_;
  std::unique_ptr<ActivationProblem> activation_;
  std::unique_ptr<FinalizeProblem> finalize_;
  Rows to_up_, from_up_, to_down_;
};

void LayerRun::route() {
  const Kernel kernel = engine_.get(config_, "router");
  router_ = std::make_unique<RouterProblem>(kernel.target(), config_,
                                            RouterOptions{.num_tokens = options_.num_tokens, .seed = options_.seed});
  add_row(kernel, router_->args(), *router_, fmt::format("{} tokens, every slot by the rules", options_.num_tokens));
  ids_ = widened(router_->ids());
  weights_ = router_->weights();
}

void LayerRun::group() {
  const Kernel kernel = engine_.get(config_, "create_indices");
  indices_ = std::make_unique<IndicesProblem>(kernel, config_, ids_);
  create_indices::Args args = indices_->args();
  if (reads_routers_ids(fields_)) args.topk_ids = router_->args().expert_indices;
  add_row(kernel, args, *indices_, fmt::format("{} pairs, every table, exactly", ids_.size()));
}

// Tokens as the up projection reads them: in the order of experts, or where they are (gather_a).
void LayerRun::bring_rows() {
  x_ = row_values(fields_.dtypes.activation, options_.num_tokens, fields_.expert_hidden, false, options_.seed + 1,
                  std::numeric_limits<double>::max());
  const Kernel up = engine_.get(config_, "grouped_matmul.up");
  x_.upload(up.target(), "x");
  if (up.plan().boolean("gather_a"))
    to_up_ = plain_rows(x_.device.data(), x_.host, options_.num_tokens, false);
  else
    permute_rows();
  if (!report_.failed() && fields_.quantization.scheme != Scheme::none && !to_up_.way.quantised)
    quantise("quantize.up", permute_ ? num_rows() : -1, to_up_);
}

void LayerRun::permute_rows() {
  const Kernel kernel = engine_.get(config_, "permute");
  permute_ =
      std::make_unique<PermuteProblem>(kernel, config_, indices_->want(),
                                       PermuteOptions{.seed = options_.seed + 1, .x = &x_.host, .weights = &weights_});
  permute::Args args = permute_->args();
  args.x = x_.device.data();
  args.restore = indices_->args().restore_token_order;
  args.order = indices_->args().token_expert_order;
  args.expert_start_indices = indices_->args().expert_start_indices;
  args.weights = router_->args().expert_weights;
  add_row(kernel, args, *permute_, fmt::format("{} x {} rows, exactly", num_rows(), fields_.expert_hidden));
  const bool quantised = kernel.plan().boolean("quantised");
  to_up_ = rows_of(permute_->output(), args.global_scale, permute_->global_scale(), args.num_rows,
                   {.stored = fields_.experts.weights_on_input && !quantised, .quantised = quantised});
}

// `rows_in_use`: of rows whose number only the target knows; -1: all.
void LayerRun::quantise(const char* name, std::int64_t rows_in_use, Rows& rows) {
  const Kernel kernel = engine_.get(config_, name);
  quantize_.push_back(std::make_unique<QuantizeProblem>(kernel, config_,
                                                        Tensor{fields_.dtypes.activation, rows.host, {}}, rows.count,
                                                        QuantizeOptions{.rows_in_use = rows_in_use}));
  QuantizeProblem& problem = *quantize_.back();
  quantize::Args args = problem.args();
  args.x = rows.rows;
  if (rows_in_use >= 0) args.row_count = row_count();
  add_row(kernel, args, problem, fmt::format("{} rows, exactly", rows_in_use < 0 ? rows.count : rows_in_use));
  rows = rows_of(problem.output(), args.global_scale, problem.global_scale(), rows.count,
                 {.stored = rows.way.stored, .quantised = true});
}

std::unique_ptr<GroupedMatmulProblem> LayerRun::project(const Kernel& kernel, const Rows& rows, std::uint64_t seed) {
  const reference::Indices& indices = indices_->want();
  auto problem = std::make_unique<GroupedMatmulProblem>(
      kernel.target(), matmul_spec(kernel, config_), matmul_case(indices, seed),
      MatmulRows{rows.host, rows.host_scales, rows.scales_stride, indices.token_expert_order, rows.count});
  grouped_matmul::Args args = problem->args();
  args.a = rows.rows;
  args.a_scales = rows.scales;
  args.a_scales_stride = rows.scales_stride;
  args.a_offsets = indices_->args().expert_start_indices;
  args.expert_ids = indices_->args().expert_ids;
  args.order = indices_->args().token_expert_order;
  add_row(kernel, args, *problem,
          fmt::format("{} x {} sums of {}, within the bounds of their dtypes", args.num_rows,
                      problem->spec().output_columns, problem->spec().depth));
  return problem;
}

void LayerRun::project_up() {
  up_ = project(engine_.get(config_, "grouped_matmul.up"), to_up_, options_.seed + 2);
  const grouped_matmul::Args args = up_->args();
  const bool quantised = up_->spec().fuse_quantize;
  from_up_ = {args.c,
              args.c_scales,
              up_->c_scales_stride(),
              up_->output(),
              up_->output_scales(),
              num_rows(),
              {.stored = !quantised, .quantised = quantised}};
}

// What of the activation and of quantising the up projection left to others.
void LayerRun::activate() {
  to_down_ = std::move(from_up_);
  if (!up_->spec().fuse_activation) {
    const Kernel kernel = engine_.get(config_, "activation");
    const reference::Indices& indices = indices_->want();
    activation_ = std::make_unique<ActivationProblem>(
        kernel, config_, RowGroups{indices.expert_start_indices, indices.expert_ids},
        Tensor{fields_.dtypes.activation, to_down_.host, {}}, num_rows(), ActivationOptions{.seed = options_.seed + 4});
    activation::Args args = activation_->args();
    args.up = to_down_.rows;
    args.row_count = row_count();
    args.expert_start_indices = indices_->args().expert_start_indices;
    args.expert_ids = indices_->args().expert_ids;
    add_row(kernel, args, *activation_,
            fmt::format("{} x {} values, within the bounds of their functions", num_rows(), fields_.intermediate));
    const bool quantised = kernel.plan().boolean("quantised");
    to_down_ = rows_of(activation_->output(), args.global_scale, activation_->global_scale(), num_rows(),
                       {.stored = !quantised, .quantised = quantised});
  }
  if (!report_.failed() && fields_.quantization.scheme != Scheme::none && !to_down_.way.quantised)
    quantise("quantize.down", num_rows(), to_down_);
}

void LayerRun::project_down() {
  down_ = project(engine_.get(config_, "grouped_matmul.down"), to_down_, options_.seed + 5);
}

void LayerRun::combine() {
  const Kernel kernel = engine_.get(config_, "finalize");
  const std::vector<char> rows = down_->output();
  finalize_ = std::make_unique<FinalizeProblem>(
      kernel.target(), config_, Routing{indices_->want().restore_token_order, ids_, num_rows()},
      FinalizeOptions{.seed = options_.seed, .weights = &weights_, .down = &rows, .x = &x_.host});
  finalize::Args args = finalize_->args();
  args.down = down_->args().c;
  args.restore = indices_->args().restore_token_order;
  args.weights = router_->args().expert_weights;
  if (args.x) args.x = x_.device.data();
  add_row(kernel, args, *finalize_,
          fmt::format("{} x {} sums, within half an ulp and the bound of float32 sums", options_.num_tokens,
                      fields_.expert_hidden));
  output_ = finalize_->output();
}

void LayerRun::check_layer() {
  reference::MatmulTensors up = up_->tensors();
  if (activation_) {
    const reference::ActivationInputs own = activation_->inputs();
    up.limits = own.limits;
    up.inputs = own.inputs;
  }
  const LayerCheck check({fields_, indices_->want(), options_.num_tokens, x_.host, weights_, up_->spec(), down_->spec(),
                          std::move(up), down_->tensors(), finalize_->inputs(), to_up_.way, to_down_.way},
                         GroupedMatmulProblem::kHostBudget);
  LayerRow row{.kernel = "layer", .us = 0, .checked = "", .wrong = "", .details = ""};
  for (const LayerRow& one : report_.rows) row.us += one.us;
  row.checked = fmt::format("{} of {} tokens x {}, within the spread of all roundings on the way", check.num_compared(),
                            options_.num_tokens, fields_.expert_hidden);
  if (options_.alter_output) options_.alter_output(output_);
  row.wrong = check.compare(output_).value_or("");
  report_.rows.push_back(std::move(row));
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
    LayerRun(engine, scaled.config, options, report).run();
    return report;
  }
  if (cuda::num_devices() == 0)
    throw Error(ErrorCode::unsupported,
                "run needs a CUDA device and found none; 'moegen run --target cpu' needs none, "
                "and 'moegen doctor' says what is missing");
  const cuda::PrimaryContext context;
  report.device = cuda::device_info(context.ordinal()).name;
  LayerRun(engine, config, options, report).run();
  return report;
}

}  // namespace moegen::verify
