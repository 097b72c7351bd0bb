// SPDX-License-Identifier: Apache-2.0
// The quantize family: the rows of each matmul where no other kernel quantises them.
#include <moegen/family.hpp>

#include <moegen/args/quantize.h>
#include "families/activation_fields.hpp"
#include "families/alignment.hpp"
#include "families/row_shape.hpp"
#include "plan_builder.hpp"

namespace moegen {
namespace {

using quantize::Args;

constexpr int kLaunchAbi = 1;

std::vector<std::string> kernels(const Config& config) {
  if (!quantises_rows(config->quantization.scheme)) return {};
  return {"quantize.up", "quantize.down"};
}

RowFormat format_of(const ConfigFields& fields, std::string_view kernel) {
  const std::int64_t width = kernel == "quantize.up" ? fields.expert_hidden : fields.intermediate;
  return {width, fields.quantization.scheme, fields.dtypes.activation, false, true};
}

std::string_view width_pointer(const ConfigFields& fields, std::string_view kernel) {
  if (kernel == "quantize.down") return "/intermediate";
  return fields.expert_hidden == fields.hidden ? "/hidden" : "/expert_hidden";
}

Plan plan(const Config& config, std::string_view kernel, const Arch& arch) {
  PlanBuilder builder(config, kernel, arch);
  const RowFormat format = format_of(config.fields(), kernel);
  const RowShape shape = choose_row_shape(format, false, 1, arch);
  add_rows(builder, config.fields(), format, shape, width_pointer(config.fields(), kernel));
  builder.entry(rows_entry("moegen_quantize", shape, arch));
  return std::move(builder).finish<Args>(kLaunchAbi);
}

std::vector<std::string_view> templates(const Plan&) { return {"quantize/kernel.cuh"}; }

std::string_view entry_template(const EntryPlan&) { return "quantize::run<Params>"; }

LaunchConstants constants(const Plan& plan) {
  LaunchConstants values{};
  set_row_constants(values, plan);
  return values;
}

Launch launch(const LaunchConstants& values, const LaunchDevice& device, const void* raw) noexcept {
  return {0, row_blocks(values, device, static_cast<const Args*>(raw)->num_rows), 1};
}

const char* check(const LaunchConstants& values, const LaunchDevice&, const void* raw) noexcept {
  const Args& args = *static_cast<const Args*>(raw);
  if (args.num_rows < 0) return "num_rows is negative; it must be 0 or more";
  if (args.num_rows > kMaxRows) return "num_rows is too large; allowed 0 .. 2^31 - 1";
  if (args.num_rows == 0) return nullptr;
  if (!args.x) return "x is null; it takes dtypes.activation [num_rows, width]";
  if (misaligned(args.row_count, 4)) return "row_count is not aligned to 4 bytes";
  return check_row_pointers(values,
                            {args.rows, args.scales, args.x, args.global_scale, args.num_rows, args.scales_stride});
}

}  // namespace

extern const Family kQuantizeFamily;
const Family kQuantizeFamily = {
    .name = "quantize",
    .tag = Args::kFamily,
    .kernels = kernels,
    .plan = plan,
    .templates = templates,
    .entry_template = entry_template,
    .fragments = nullptr,
    .constants = constants,
    .launch = launch,
    .check = check,
    .workspace_bytes = nullptr,
};

}  // namespace moegen
