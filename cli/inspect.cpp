// SPDX-License-Identifier: Apache-2.0
// moegen inspect: what compiled kernels contain, from a cubin, a pack, a cache entry, or a config's kernels.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "cache/entry.hpp"
#include "cache/pack.hpp"
#include "command.hpp"
#include "cubin_info.hpp"
#include "exit_code.hpp"
#include "occupancy.hpp"
#include "support/engine_options.hpp"
#include "support/interrupt.hpp"
#include "support/json_output.hpp"
#include "support/output_file.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"

namespace moegen::cli {
namespace {

struct Request {
  std::vector<std::string> inputs;
  Selection selection;
  bool json = false;
};

/// A cubin with what is known about it beside its bytes.
struct Inspected {
  std::string source;                  ///< where it was found
  std::optional<cache::Entry> stored;  ///< nothing for a bare cubin
  std::optional<Plan> plan;            ///< only where a config asked for it
  std::uint64_t bytes = 0;
  CubinInfo info;
};

/// More than any pack has: a device without an end is no input.
constexpr std::size_t kMaxInputBytes = std::size_t{512} << 20;
constexpr std::string_view kEntryStart = "moegen entry\n", kPackStart = "moegen pack\n";

Inspected from_entry(const cache::Entry& entry, const std::string& source) {
  if (entry.target != to_string(Target::cuda))
    throw Error(ErrorCode::config,
                fmt::format("{}: {} {} is an object of the {} target, for a host's processor; allowed a cubin, of the "
                            "cuda target",
                            source, entry.kernel, entry.arch, entry.target));
  return {source, entry, std::nullopt, entry.payload.size(), read_cubin(entry.payload, source)};
}

Inspected from_entry_bytes(std::string_view bytes, const std::string& source) {
  cache::BadEntry bad;
  const std::optional<cache::Entry> entry = cache::decode(bytes, bad);
  if (!entry) throw Error(ErrorCode::cache, fmt::format("{}: not a usable cache entry: {}", source, bad.reason));
  return from_entry(*entry, source);
}

void add_pack(const std::string& path, std::vector<Inspected>& found) {
  if (path == "-") throw Error(ErrorCode::config, "inspect: a pack is not read from standard input; allowed a file");
  const cache::Pack pack = cache::Pack::open(path);
  for (const std::string& key : pack.keys()) {
    cache::BadEntry bad;
    const std::optional<cache::Entry> entry = pack.find(key, bad);
    if (!entry) throw Error(ErrorCode::cache, fmt::format("{}: entry {}: {}", path, key, bad.reason));
    found.push_back(from_entry(*entry, path));
  }
}

void add_config(const Config& config, const Selection& selection, std::vector<Inspected>& found) {
  Progress progress;
  Engine engine(engine_options(progress));
  const std::vector<Job> jobs = select_jobs({config}, selection);
  std::size_t done = 0;
  const DeferInterrupts until_stored;
  for (const Job& job : jobs) {
    check_interrupt();
    progress.show(++done, jobs.size(), fmt::format("{} {}", job.kernel, job.arch->name));
    const Plan plan = make_plan(job.config, job.kernel, *job.arch);
    for (const auto& entry : engine.entries(plan)) {
      found.push_back(from_entry(*entry, config.origin()));
      found.back().plan = plan;
    }
  }
}

void add_input(const std::string& path, const Selection& selection, std::vector<Inspected>& found) {
  const std::string bytes = read_file(path, kMaxInputBytes);
  const std::string source = path == "-" ? "<stdin>" : path;
  if (is_elf(bytes)) {
    found.push_back({source, std::nullopt, std::nullopt, bytes.size(), read_cubin(bytes, source)});
  } else if (bytes.starts_with(kEntryStart)) {
    found.push_back(from_entry_bytes(bytes, source));
  } else if (bytes.starts_with(kPackStart)) {
    add_pack(path, found);
  } else {
    add_config(Config::from_json(bytes, source), selection, found);
  }
}

/// What ptxas said when the kernel was compiled; the cubin itself does not hold spills.
const EntryResources* compiled_resources(const Inspected& inspected, const std::string& entry) {
  if (!inspected.stored) return nullptr;
  for (const EntryResources& resources : inspected.stored->resources) {
    if (resources.entry == entry) return &resources;
  }
  return nullptr;
}

std::optional<unsigned> spill_bytes(const Inspected& inspected, const CubinKernel& kernel) {
  const EntryResources* resources = compiled_resources(inspected, kernel.name);
  if (resources == nullptr) return std::nullopt;
  return static_cast<unsigned>(resources->spill_store_bytes + resources->spill_load_bytes);
}

const EntryPlan* planned(const Inspected& inspected, const CubinKernel& kernel) {
  if (!inspected.plan) return nullptr;
  const auto found = std::ranges::find(inspected.plan->entries, kernel.name, &EntryPlan::name);
  return found == inspected.plan->entries.end() ? nullptr : &*found;
}

std::optional<int> dynamic_bytes(const Inspected& inspected, const CubinKernel& kernel) {
  if (const EntryPlan* entry = planned(inspected, kernel)) return entry->dynamic_shared_bytes;
  return std::nullopt;
}

/// Stages of the entry's ring, where it has one.
std::optional<std::int64_t> stages(const Inspected& inspected, const CubinKernel& kernel) {
  const EntryPlan* entry = planned(inspected, kernel);
  if (!entry) return std::nullopt;
  for (const Decision& decision : inspected.plan->decisions)
    if (decision.name == entry->variant + ".stages") return std::get<std::int64_t>(decision.value);
  return std::nullopt;
}

std::optional<int> resident_blocks(const Inspected& inspected, const CubinKernel& kernel) {
  const EntryPlan* entry = planned(inspected, kernel);
  if (!entry || !kernel.registers) return std::nullopt;
  return blocks_per_sm(inspected.plan->arch, {entry->threads, static_cast<int>(*kernel.registers),
                                              static_cast<int>(kernel.shared_bytes) + entry->dynamic_shared_bytes});
}

std::string kernel_name(const Inspected& inspected) { return inspected.stored ? inspected.stored->kernel : "cubin"; }

/// The cache knows the arch for certain; a cubin's own record is the next best.
std::string arch_name(const Inspected& inspected) {
  return inspected.stored ? inspected.stored->arch : inspected.info.arch;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json entry_json(const Inspected& inspected, const CubinKernel& kernel) {
  Json parameters = Json::array();
  for (const CubinParameter& each : kernel.parameters)
    parameters.push_back({{"offset", each.offset}, {"bytes", each.bytes}});
  return {{"name", kernel.name},
          {"code_bytes", kernel.code_bytes},
          {"registers", or_null(kernel.registers)},
          {"spill_bytes", or_null(spill_bytes(inspected, kernel))},
          {"shared_bytes", kernel.shared_bytes},
          {"dynamic_shared_bytes", or_null(dynamic_bytes(inspected, kernel))},
          {"stages", or_null(stages(inspected, kernel))},
          {"blocks_per_sm", or_null(resident_blocks(inspected, kernel))},
          {"stack_bytes", or_null(kernel.stack_bytes)},
          {"barriers", kernel.barriers.value_or(0)},
          {"mbarriers", kernel.mbarriers.value_or(0)},
          {"max_threads", or_null(kernel.max_threads)},
          {"required_threads", or_null(kernel.required_threads)},
          {"cluster", or_null(kernel.cluster)},
          {"parameter_bytes", or_null(kernel.parameter_bytes)},
          {"parameters", std::move(parameters)}};
}

Json cubin_json(const Inspected& inspected) {
  Json entries = Json::array();
  for (const CubinKernel& kernel : inspected.info.kernels) entries.push_back(entry_json(inspected, kernel));
  Json cubin = {{"source", inspected.source},
                {"kernel", inspected.stored ? Json(inspected.stored->kernel) : Json(nullptr)},
                {"arch", arch_name(inspected)},
                {"bytes", inspected.bytes},
                {"compiler", inspected.stored ? inspected.stored->compiler : inspected.info.compiler},
                {"key", inspected.stored ? Json(inspected.stored->key) : Json(nullptr)}};
  cubin["entries"] = std::move(entries);
  return cubin;
}

template <class T>
std::string or_dash(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

std::string or_dash(const std::optional<std::array<unsigned, 3>>& size) {
  if (!size) return "-";
  const auto [x, y, z] = *size;
  return y == 1 && z == 1 ? std::to_string(x) : fmt::format("{}x{}x{}", x, y, z);
}

std::string cubin_text(const Inspected& inspected) {
  using enum Table::Align;
  Table table({{"entry"},
               {"registers", right},
               {"spills", right},
               {"shared", right},
               {"dynamic", right},
               {"stages", right},
               {"blocks/SM", right},
               {"stack", right},
               {"barriers", right},
               {"mbarriers", right},
               {"threads", right},
               {"cluster", right},
               {"parameters", right},
               {"code", right}});
  for (const CubinKernel& kernel : inspected.info.kernels) {
    table.add({kernel.name, or_dash(kernel.registers), or_dash(spill_bytes(inspected, kernel)),
               std::to_string(kernel.shared_bytes), or_dash(dynamic_bytes(inspected, kernel)),
               or_dash(stages(inspected, kernel)), or_dash(resident_blocks(inspected, kernel)),
               or_dash(kernel.stack_bytes), std::to_string(kernel.barriers.value_or(0)),
               std::to_string(kernel.mbarriers.value_or(0)),
               or_dash(kernel.required_threads ? kernel.required_threads : kernel.max_threads), or_dash(kernel.cluster),
               fmt::format("{} ({} B)", kernel.parameters.size(), or_dash(kernel.parameter_bytes)),
               std::to_string(kernel.code_bytes)});
  }
  const std::string& compiler = inspected.stored ? inspected.stored->compiler : inspected.info.compiler;
  return fmt::format("{}: {} {}, {} bytes{}{}{}{}\n{}", inspected.source, kernel_name(inspected), arch_name(inspected),
                     inspected.bytes, compiler.empty() ? "" : ", ", compiler, inspected.stored ? ", key " : "",
                     inspected.stored ? inspected.stored->key : "", table.text());
}

void show(const std::vector<Inspected>& found, bool json) {
  if (json) {
    Json cubins = Json::array();
    for (const Inspected& each : found) cubins.push_back(cubin_json(each));
    return print_json({{"cubins", std::move(cubins)}});
  }
  std::string text;
  for (const Inspected& each : found) text += (text.empty() ? "" : "\n") + cubin_text(each);
  print(text);
}

}  // namespace

int run_inspect(const Arguments& arguments) {
  Request request;
  Options options("inspect", "What compiled kernels contain: registers, memory, parameters, barriers.");
  options.positionals("INPUT", request.inputs, "a cubin, a pack, a cache entry, or a config ('-': standard input)");
  request.selection.declare_kernels(options);
  request.selection.declare_archs(options);
  options.json(request.json);
  options.notes("Spills come from the compiler's report, which packs and cache entries keep and bare cubins do not.");
  if (!options.parse(arguments)) return kOk;

  std::vector<Inspected> found;
  for (const std::string& input : request.inputs) add_input(input, request.selection, found);
  show(found, request.json);
  return kOk;
}

}  // namespace moegen::cli
