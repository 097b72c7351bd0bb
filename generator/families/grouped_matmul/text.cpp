// SPDX-License-Identifier: Apache-2.0
#include "families/grouped_matmul/text.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include <moegen/error.hpp>

#include "families/expert_expression.hpp"
#include "wgmma.hpp"

namespace moegen::grouped_matmul {
namespace {

/// The decisions called "VARIANT.NAME" of a plan.
class TileDecisions {
 public:
  TileDecisions(const Plan& plan, std::string_view variant) : plan_(plan), prefix_(fmt::format("{}.", variant)) {}
  std::int64_t integer(std::string_view name) const { return plan_.integer(prefix_ + std::string(name)); }
  bool boolean(std::string_view name) const { return plan_.boolean(prefix_ + std::string(name)); }
  std::vector<int> widths() const {
    std::istringstream text(plan_.text(prefix_ + "widths"));
    std::vector<int> widths;
    for (int width = 0; text >> width;) widths.push_back(width);
    return widths;
  }
  /// Columns of a sum, and N of its products.
  std::vector<int> product_columns() const {
    if (boolean("tokens_on_m")) return {static_cast<int>(integer("weight_rows"))};
    return widths();
  }
  std::vector<int> shapes() const {
    if (boolean("tokens_on_m")) return {static_cast<int>(integer("part_columns"))};
    return widths();
  }

 private:
  const Plan& plan_;
  std::string prefix_;
};

/// "index == 0 ? 8 : index == 1 ? 16 : 32"
std::string spell_choice(const std::vector<int>& values) {
  std::string out;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) out += fmt::format("index == {} ? {} : ", i, values[i]);
  return out + std::to_string(values.back());
}

std::string spell_function(std::string_view name, const std::vector<int>& values) {
  return fmt::format("  static MOEGEN_DEVICE constexpr uint32_t {}({}) {{ return {}; }}\n", name,
                     values.size() == 1 ? "uint32_t" : "uint32_t index", spell_choice(values));
}

constexpr std::string_view kNumbers[] = {
    "max_tokens", "weight_rows", "tile_columns", "warpgroup_columns", "warpgroups", "stages",
    "cluster",    "scale_warps", "staging_rows", "staging_bytes",     "raster",     "even_tiles",
    "token_step", "box_heights", "num_widths",   "shared_bytes",      "threads",    "joined_tiles"};
constexpr std::string_view kHopperNumbers[] = {"loader_registers", "multiplier_registers", "store_rows",
                                               "staging_panels",   "part_columns",         "scale_chunks",
                                               "scale_floats"};
constexpr std::string_view kFlags[] = {"tokens_on_m", "aligned", "weights_once", "dealt"};

bool is_portable(const Plan& plan) { return plan.entries.front().variant == "portable"; }

std::string spell_tiles(const Plan& plan, const EntryPlan& entry) {
  const TileDecisions tiles(plan, entry.variant);
  std::string out = fmt::format("/// Tiles of up to {} tokens.\nstruct {} {{\n", tiles.integer("max_tokens"),
                                tiles_name(entry.variant));
  for (std::string_view name : kNumbers)
    out += fmt::format("  enum : uint32_t {{ {} = {} }};\n", name, tiles.integer(name));
  if (!is_portable(plan))
    for (std::string_view name : kHopperNumbers)
      out += fmt::format("  enum : uint32_t {{ {} = {} }};\n", name, tiles.integer(name));
  if (!is_portable(plan) && plan.boolean("gather_a"))
    out += fmt::format("  enum : uint32_t {{ gather_warps = {} }};\n", tiles.integer("gather_warps"));
  for (std::string_view name : kFlags) out += fmt::format("  enum : bool {{ {} = {} }};\n", name, tiles.boolean(name));
  out += "  /// Columns of tokens that have a loop of their own, and the columns of a sum.\n";
  out += spell_function("width", tiles.widths()) + spell_function("product_columns", tiles.product_columns());
  out += fmt::format(
      "  template <class P, class T, class Custom, uint32_t N>\n"
      "  using Finish = grouped_matmul::FinishTokens{}<P, T, Custom, N>;\n}};\n\n",
      tiles.boolean("tokens_on_m") ? "M" : "N");
  return out;
}

std::string spell_products(const Plan& plan) {
  std::set<int> columns;
  for (const EntryPlan& entry : plan.entries)
    for (int n : TileDecisions(plan, entry.variant).shapes()) columns.insert(n);
  std::string out;
  for (int n : columns) out += spell_wgmma({*find_dtype(plan.text("element_dtype")), n}) + "\n";
  return out;
}

std::string_view spell_activation(bool gated) {
  if (!gated) return "  static MOEGEN_DEVICE float activate(float value) { return moegen::activate<Params>(value); }\n";
  return "  static MOEGEN_DEVICE float activate(const grouped_matmul::Args& args, float gate, float up, int32_t "
         "expert) "
         "{\n    return moegen::activate<Params>(gate, up, activation_limit<Params>(args.limits, expert));\n  }\n";
}

std::string spell_custom(const Plan& plan) {
  std::string out = "/// What the config adds to a sum.\nstruct Custom {\n";
  if (plan.boolean("fuse_activation")) out += spell_activation(plan.boolean("gated"));
  if (!plan.expressions.empty()) {
    const bool up = plan.kernel.ends_with(".up");
    out += spell_expert_epilogue(plan.expressions.front(), up ? "/experts/up_epilogue" : "/experts/down_epilogue",
                                 "grouped_matmul", "output_columns");
  }
  return out + "};\n\n";
}

}  // namespace

std::string tiles_name(std::string_view variant) {
  std::string name(variant);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

std::string spell_fragments(const Plan& plan) {
  std::string out = spell_custom(plan);
  for (const EntryPlan& entry : plan.entries) out += spell_tiles(plan, entry);
  return is_portable(plan) ? out : out + spell_products(plan);
}

}  // namespace moegen::grouped_matmul
