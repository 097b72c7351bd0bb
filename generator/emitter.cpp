// SPDX-License-Identifier: Apache-2.0
// Plan -> Source: the templates a kernel needs, its Params, and its entry points.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>
#include <moegen/source.hpp>

namespace moegen {
namespace {

constexpr std::string_view kInclude = "#include \"";

// Appends templates to one text: each file once, includes before includers, `#include` and `#pragma once` left out.
class Flattener {
 public:
  explicit Flattener(const Templates& templates) : templates_(templates) {}

  void add(const std::string& path) {
    if (!seen_.insert(path).second) return;
    std::string body;
    std::string_view rest = templates_.text(path);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
      add_line(path, rest.substr(0, end + 1), body);
      rest.remove_prefix(end + 1);
    }
    body.erase(0, body.find_first_not_of('\n'));
    out_ +=
        fmt::format("// ---- {} {}\n{}\n", path, std::string(100 - std::min<std::size_t>(99, path.size()), '-'), body);
  }

  std::string take() && { return std::move(out_); }

 private:
  void add_line(const std::string& path, std::string_view line, std::string& body) {
    if (line.starts_with("// SPDX-License-Identifier:") || line.starts_with("#pragma once")) return;
    if (line.starts_with("#include <")) return;  // host headers of args.h
    if (!line.starts_with(kInclude)) {
      body += line;
      return;
    }
    line.remove_prefix(kInclude.size());
    const std::filesystem::path target(line.substr(0, line.find('"')));
    add((std::filesystem::path(path).parent_path() / target).lexically_normal().generic_string());
  }

  const Templates& templates_;
  std::set<std::string> seen_;
  std::string out_;
};

// The device type of a dtype; 16-bit floats have their own names in templates/core/types.cuh.
std::string device_type(const std::string& dtype) {
  if (dtype == "float32") return "float";
  const bool integer = dtype.starts_with("int") || dtype.starts_with("uint");
  return integer ? dtype + "_t" : dtype;
}

// The nearest float32 as the shortest text that reads back as it.
std::string spell_float(double value) {
  const std::string digits = fmt::format("{}", static_cast<float>(value));
  return digits + (digits.find_first_of(".e") == std::string::npos ? ".0f" : "f");
}

// A decision as a member of Params: dtypes and kinds (of namespace kinds) become types, everything else a constant.
// Enumerators, or functions for floats, because a static member that is ever bound to a reference would land in global
// memory.
std::string spell_member(const Decision& decision) {
  if (decision.name.ends_with("_dtype"))
    return fmt::format("using {} = {};", decision.name, device_type(std::get<std::string>(decision.value)));
  if (decision.name.ends_with("_kind"))
    return fmt::format("using {} = kinds::{};", decision.name, std::get<std::string>(decision.value));
  if (const double* number = std::get_if<double>(&decision.value))
    return fmt::format("static MOEGEN_DEVICE constexpr float {}() {{ return {}; }}", decision.name,
                       spell_float(*number));
  if (const bool* flag = std::get_if<bool>(&decision.value))
    return fmt::format("enum : bool {{ {} = {} }};", decision.name, *flag);
  if (const std::int64_t* number = std::get_if<std::int64_t>(&decision.value))
    return fmt::format("enum : uint32_t {{ {} = {} }};", decision.name, *number);
  throw Error(ErrorCode::internal, fmt::format("decision '{}' has no form in device code", decision.name));
}

std::string spell_params(const Plan& plan) {
  std::string out = "/// What this kernel was specialised for.\nstruct Params {\n";
  for (const Decision& decision : plan.decisions)
    if (decision.constant)
      out += fmt::format("  {}  // {}: {}\n", spell_member(decision), to_string(decision.origin), decision.reason);
  return out + "};\n";
}

// Blocks whose registers a multiprocessor must be able to hold: the plan's min_blocks, where it has one.
std::int64_t min_blocks(const Plan& plan) {
  const auto found = std::ranges::find(plan.decisions, "min_blocks", &Decision::name);
  return found == plan.decisions.end() ? 1 : std::get<std::int64_t>(found->value);
}

std::string spell_entry(const Family& family, const Plan& plan, const EntryPlan& entry) {
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, {})\n"
      "{}(const __grid_constant__ moegen::{}::{} args) {{\n"
      "  using namespace moegen;\n"
      "  {}(args);\n"
      "}}\n",
      entry.threads, min_blocks(plan), entry.name, family.name, plan.parameter, family.entry_template(entry));
}

// A config's name as it may stand in a comment: no line end can leave the comment.
std::string comment_text(std::string_view text) {
  std::string safe(text);
  std::replace_if(safe.begin(), safe.end(), [](unsigned char c) { return c < 0x20 || c == '\\' || c == 0x7F; }, '?');
  return safe;
}

}  // namespace

Source emit_source(const Plan& plan, const Templates& templates) {
  const Family* family = find_family(plan.family);
  if (!family) throw Error(ErrorCode::internal, fmt::format("no family '{}'", plan.family));
  Flattener flattener(templates);
  for (std::string_view path : family->templates(plan)) flattener.add(std::string(path));
  Source source;
  source.text = fmt::format("// SPDX-License-Identifier: Apache-2.0\n// {} of {} for {}, written by moegen.\n\n{}",
                            plan.kernel, comment_text(plan.config_name), plan.arch.name, std::move(flattener).take());
  source.text +=
      fmt::format("// ---- this kernel {}\nnamespace moegen {{\n\n{}", std::string(89, '-'), spell_params(plan));
  if (family->fragments) source.text += "\n" + family->fragments(plan);
  source.text += "\n}  // namespace moegen\n";
  for (const EntryPlan& entry : plan.entries) {
    if (std::find(source.entries.begin(), source.entries.end(), entry.name) != source.entries.end()) continue;
    source.entries.push_back(entry.name);
    source.text += "\n" + spell_entry(*family, plan, entry);
  }
  return source;
}

std::vector<Plan> parts_of(const Plan& plan) {
  const Family* family = find_family(plan.family);
  if (!family || !family->entries_apart) return {plan};
  std::vector<Plan> parts;
  for (const EntryPlan& entry : plan.entries) {
    const auto same = [&](const Plan& part) { return part.entries.front().name == entry.name; };
    if (const auto found = std::find_if(parts.begin(), parts.end(), same); found != parts.end()) {
      found->entries.push_back(entry);
      continue;
    }
    parts.push_back(plan);
    parts.back().entries = {entry};
  }
  return parts;
}

}  // namespace moegen
