// SPDX-License-Identifier: Apache-2.0
#include "builder.hpp"

#include <future>
#include <ranges>
#include <utility>

#include <fmt/core.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>

namespace moegen {
namespace {

cache::Options cache_options(const EngineOptions& options, const Logger& log) {
  cache::Options result;
  result.directory = options.cache_dir.empty() ? cache::default_directory() : options.cache_dir;
  result.packs = options.packs;
  result.max_bytes = options.cache_max_bytes;
  result.log = log;
  return result;
}

std::optional<Templates> read_overrides(const EngineOptions& options) {
  if (!options.template_dir) return std::nullopt;
  return Templates::from_directory(*options.template_dir);
}

/// What is wrong with `entry` for `plan`; "" if nothing. The key holds source, flags and arch, but not the launch ABI:
/// that is the launcher's affair, and a pack may come from another version of moegen.
std::string mismatch(const cache::Entry& entry, const Plan& plan, Target target) {
  if (entry.target != to_string(target))
    return fmt::format("target '{}', allowed '{}'", entry.target, to_string(target));
  if (entry.arch != plan.arch.name) return fmt::format("arch '{}', allowed '{}'", entry.arch, plan.arch.name);
  if (entry.launch_abi != plan.launch_abi)
    return fmt::format("launch ABI {}, allowed {}", entry.launch_abi, plan.launch_abi);
  if (entry.args_bytes != plan.args_bytes)
    return fmt::format("arguments of {} bytes, allowed {}", entry.args_bytes, plan.args_bytes);
  return "";
}

std::string command_for(const Plan& plan, const std::string& config_file, const std::string& options) {
  const std::string& config = config_file.empty() ? plan.config_name + ".json" : config_file;
  return fmt::format("moegen build '{}' --kernel {} --arch {}{}", config, plan.kernel, plan.arch.name, options);
}

/// A part is named by the variant of its entry point.
std::string part_label(const Plan& part) {
  const Family* family = find_family(part.family);
  if (!family || !family->entries_apart || part.entries.size() > 1) return label_of(part);
  return fmt::format("{} ({})", label_of(part), part.entries.front().variant);
}

}  // namespace

std::string label_of(const Plan& plan) {
  return fmt::format("{} of '{}' for {}", plan.kernel, plan.config_name, plan.arch.name);
}

struct Builder::Request {
  const Plan& plan;
  std::string label;
  Source source;
  cache::CacheKey key;
  std::string left_aside;  ///< why the stored entry will not do, if there is one that will not
};

Builder::Builder(const EngineOptions& options, Logger log)
    : options_(options),
      log_(std::move(log)),
      toolchain_(make_toolchain(options)),
      overrides_(read_overrides(options)),
      cache_(cache_options(options, log_)) {}

std::vector<Builder::Request> Builder::requests(const std::vector<Plan>& parts) const {
  std::vector<Request> all;
  for (const Plan& part : parts) {
    Source source = emit_source(part, overrides_ ? *overrides_ : Templates::embedded());
    auto key =
        cache::make_key(to_string(toolchain_->target()), part.arch.name, toolchain_->flags(part.arch), source.text);
    all.push_back({part, part_label(part), std::move(source), std::move(key), ""});
  }
  return all;
}

std::vector<Plan> Builder::parts(const Plan& plan) const { return toolchain_->parts(plan); }

bool Builder::can_compile() const { return options_.jit && toolchain_->available(); }

// The user cache is current while the compiler that filled it is on the machine.
// Packs, and any entry where nothing can be compiled, are taken as they are.
bool Builder::is_current(const cache::Found& found) const {
  return found.status != BuildStatus::cached || toolchain_->is_current(found.entry->compiler) || !can_compile();
}

std::optional<cache::Found> Builder::find(Request& request) {
  auto found = cache_.find(request.key, "");
  if (!found) return std::nullopt;
  request.left_aside = mismatch(*found->entry, request.plan, toolchain_->target());
  if (!request.left_aside.empty() || !is_current(*found)) return std::nullopt;
  return found;
}

std::optional<Parts> Builder::find(const Plan& plan) {
  const std::vector<Plan> all = parts(plan);
  Parts found;
  for (Request& asked : requests(all)) {
    auto stored = find(asked);
    if (!stored) return std::nullopt;
    found.push_back(std::move(*stored));
  }
  return found;
}

Parts Builder::build(const Plan& plan, const std::string& config_file) {
  const std::vector<Plan> all = parts(plan);
  std::vector<Request> asked = requests(all);
  Parts built(all.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (auto found = find(asked[i]))
      built[i] = std::move(*found);
    else
      missing.push_back(i);
  }
  compile_all(asked, missing, config_file, built);
  for (std::size_t i = 0; i < all.size(); ++i)
    log_(LogLevel::debug,
         fmt::format("{}: {} (key {})", asked[i].label, to_string(built[i].status), asked[i].key.digest()));
  return built;
}

// The first on this thread, each of the others on one of its own; where a limit on threads is reached, `get` compiles.
void Builder::compile_all(const std::vector<Request>& asked, const std::vector<std::size_t>& missing,
                          const std::string& config_file, Parts& built) {
  if (missing.empty()) return;
  std::vector<std::future<cache::Found>> others;
  for (const std::size_t i : missing | std::views::drop(1))
    others.push_back(
        std::async(std::launch::async | std::launch::deferred, [&, i] { return compile(asked[i], config_file); }));
  built[missing.front()] = compile(asked[missing.front()], config_file);
  for (std::size_t i = 0; i < others.size(); ++i) built[missing[i + 1]] = others[i].get();
}

// `why` says what keeps this machine from compiling.
void Builder::refuse_miss(const Request& request, const std::string& config_file, const std::string& why) const {
  const std::string fact =
      request.left_aside.empty() ? "in no pack and not in the cache" : "stored, but with " + request.left_aside;
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: {} (key {}), and {}; build it with `{}`", request.label, fact, request.key.digest(), why,
                          command_for(request.plan, config_file, toolchain_->build_options())));
}

cache::Found Builder::compile(const Request& request, const std::string& config_file) {
  if (!options_.jit) refuse_miss(request, config_file, "compiling is off (MOEGEN_JIT=off)");
  std::string why;
  if (!toolchain_->available(&why)) refuse_miss(request, config_file, why);
  if (!request.left_aside.empty())
    log_(LogLevel::warning, fmt::format("{}: the stored entry {} is left aside: {}", request.label,
                                        request.key.digest(), request.left_aside));
  auto found = cache_.find_or_compile(request.key, toolchain_->version(), [&] { return compile_entry(request); });
  if (mismatch(*found.entry, request.plan, toolchain_->target()).empty()) return found;
  // A pack answers first with an entry that this launcher cannot use; this process then compiles for itself.
  return {std::make_shared<const cache::Entry>(compile_entry(request)), BuildStatus::compiled};
}

cache::Entry Builder::compile_entry(const Request& request) const {
  const Plan& plan = request.plan;
  log_(LogLevel::info, fmt::format("{}: compiling with {}", request.label, toolchain_->version()));
  auto compiled = toolchain_->compile(request.source.text, plan.kernel + ".cu", plan.arch, request.source.entries);
  refuse_spills(request, compiled);
  cache::Entry entry;
  entry.key_fields = request.key.fields();
  entry.key = request.key.digest();
  entry.compiler = toolchain_->version();
  entry.kernel = plan.kernel;
  entry.target = to_string(toolchain_->target());
  entry.arch = plan.arch.name;
  entry.launch_abi = plan.launch_abi;
  entry.args_bytes = plan.args_bytes;
  entry.resources = std::move(compiled.resources);
  entry.payload = std::move(compiled.payload);
  return entry;
}

// With templates of their own, people want to see and time a kernel that is not finished; and an expression may need
// more registers than there are, which its author alone can change.
void Builder::refuse_spills(const Request& request, const Compiled& compiled) const {
  const bool shipped = !overrides_ && request.plan.expressions.empty();
  for (const EntryResources& entry : compiled.resources) {
    if (entry.spill_store_bytes + entry.spill_load_bytes == 0) continue;
    const std::string what =
        fmt::format("{}: entry point '{}' spills registers: {} bytes stored, {} loaded; {}", request.label, entry.entry,
                    entry.spill_store_bytes, entry.spill_load_bytes, shipped ? "allowed 0" : "0 would be faster");
    if (shipped) throw CompileError(what, request.source.text, compiled.log);
    log_(LogLevel::warning, what);
  }
}

}  // namespace moegen
