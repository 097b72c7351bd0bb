// SPDX-License-Identifier: Apache-2.0
// moegen cache explain: the key of each kernel, where it is found, and what differs from the nearest entry if not.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>
#include <moegen/source.hpp>

#include "cache/key.hpp"
#include "cache/pack.hpp"
#include "command.hpp"
#include "exit_code.hpp"
#include "support/cache_folder.hpp"
#include "support/json_output.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"
#include "toolchain.hpp"

namespace moegen::cli {
namespace {

using cache::KeyField;
using Listed = cache::Cache::Listed;

/// A field that two keys do not agree on; "" where one has no such field.
struct Difference {
  std::string name, wanted, stored;
};

/// What is stored by itself: a part of the kernel of a job.
struct Part {
  Job job;
  std::vector<std::string> entries;  ///< names of its entry points
  cache::CacheKey key;
};

struct Explained {
  Part part;
  std::string found;                ///< path of the pack or entry that has the key; "" on a miss
  const Listed* nearest = nullptr;  ///< on a miss, the entry that shares most; null if there is none to compare with
  std::vector<Difference> differences;
};

/// Value of the `nth` field called `name` (flags share one name); "" if there are not as many.
std::string value_of(const std::vector<KeyField>& fields, const std::string& name, std::size_t nth) {
  for (const KeyField& field : fields) {
    if (field.name == name && nth-- == 0) return field.value;
  }
  return {};
}

void add_missing_from(const std::vector<KeyField>& wanted, const std::vector<KeyField>& stored,
                      std::vector<Difference>& found) {
  std::map<std::string, std::size_t> seen;
  for (const KeyField& field : stored) {
    const std::size_t nth = seen[field.name]++;
    if (value_of(wanted, field.name, nth).empty()) found.push_back({field.name, "", field.value});
  }
}

std::vector<Difference> differences(const std::vector<KeyField>& wanted, const std::vector<KeyField>& stored) {
  std::vector<Difference> found;
  std::map<std::string, std::size_t> seen;
  for (const KeyField& field : wanted) {
    std::string other = value_of(stored, field.name, seen[field.name]++);
    if (other != field.value) found.push_back({field.name, field.value, std::move(other)});
  }
  add_missing_from(wanted, stored, found);
  return found;
}

/// The compiler is no part of the key, but the cache wants it to be the machine's own; without one it takes any.
bool fits_compiler(const cache::Entry& entry, const std::string& compiler) {
  return compiler.empty() || entry.compiler == compiler;
}

std::vector<Difference> differences(const cache::CacheKey& key, const cache::Entry& entry,
                                    const std::string& compiler) {
  std::vector<Difference> found = differences(key.fields(), entry.key_fields);
  if (!fits_compiler(entry, compiler)) found.push_back({"compiler", compiler, entry.compiler});
  return found;
}

/// Where lookups are made.
struct Places {
  std::vector<std::filesystem::path> packs;
  std::vector<Listed> files;
  std::string compiler;  ///< of this machine; "" if it has none
};

/// The toolchain that `options` ask for. The CPU target's must be there: its keys name the host.
std::shared_ptr<const Toolchain> open_toolchain(const EngineOptions& options) {
  auto toolchain = make_toolchain(options);
  std::string why;
  if (toolchain->target() == Target::cpu && !toolchain->available(&why))
    throw Error(ErrorCode::unsupported, fmt::format("cache explain: --target cpu: {}", why));
  return toolchain;
}

std::vector<Listed> entries_of(const EngineOptions& options, std::string_view target) {
  std::vector<Listed> files = open_cache(options).list();
  std::erase_if(files, [&](const Listed& file) { return file.entry && file.entry->target != target; });
  return files;
}

Places open_places(const EngineOptions& options, const Toolchain& toolchain) {
  return {options.packs, entries_of(options, to_string(toolchain.target())),
          toolchain.available(nullptr) ? toolchain.version() : ""};
}

bool has_entries(const cache::Entry& entry, const std::vector<std::string>& names) {
  return std::ranges::equal(entry.resources, names, {}, &EntryResources::entry);
}

/// Of the sound entries for the same entry points of the same kernel and target, the one that differs least; the first
/// of equals.
const Listed* nearest_entry(const Places& places, const Part& part) {
  const Listed* best = nullptr;
  std::size_t fewest = 0;
  for (const Listed& file : places.files) {
    if (!file.entry || file.entry->kernel != part.job.kernel || !has_entries(*file.entry, part.entries)) continue;
    const std::size_t count = differences(part.key, *file.entry, places.compiler).size();
    if (best == nullptr || count < fewest) best = &file, fewest = count;
  }
  return best;
}

std::string find_in_packs(const Places& places, const std::string& digest) {
  for (const auto& path : places.packs) {
    const cache::Pack pack = cache::Pack::open(path);
    if (std::find(pack.keys().begin(), pack.keys().end(), digest) != pack.keys().end()) return path.string();
  }
  return {};
}

std::string find_in_files(const Places& places, const std::string& digest) {
  for (const Listed& file : places.files) {
    if (file.entry && file.entry->key == digest && fits_compiler(*file.entry, places.compiler))
      return file.path.string();
  }
  return {};
}

std::vector<Part> parts_of(const Job& job, const Toolchain& toolchain, const std::optional<Templates>& templates) {
  std::vector<Part> parts;
  for (const Plan& plan : toolchain.parts(make_plan(job.config, job.kernel, *job.arch))) {
    Source source = emit_source(plan, templates ? *templates : Templates::embedded());
    auto key = cache::make_key(to_string(toolchain.target()), job.arch->name, toolchain.flags(*job.arch), source.text);
    parts.push_back({job, std::move(source.entries), std::move(key)});
  }
  return parts;
}

Explained explain(Part part, const Places& places) {
  Explained explained{std::move(part), {}, nullptr, {}};
  const cache::CacheKey& key = explained.part.key;
  explained.found = find_in_packs(places, key.digest());
  if (explained.found.empty()) explained.found = find_in_files(places, key.digest());
  if (explained.found.empty()) explained.nearest = nearest_entry(places, explained.part);
  if (explained.nearest == nullptr) return explained;
  explained.differences = differences(key, *explained.nearest->entry, places.compiler);
  return explained;
}

Json as_json(const Explained& explained) {
  Json fields = Json::array(), differs = Json::array();
  for (const KeyField& field : explained.part.key.fields())
    fields.push_back({{"name", field.name}, {"value", field.value}});
  for (const Difference& each : explained.differences) {
    differs.push_back({{"name", each.name}, {"wanted", each.wanted}, {"stored", each.stored}});
  }
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"kernel", explained.part.job.kernel},
          {"arch", explained.part.job.arch->name},
          {"entries", explained.part.entries},
          {"key", explained.part.key.digest()},
          {"found", text_or_null(explained.found)},
          {"fields", std::move(fields)},
          {"nearest", explained.nearest ? Json(explained.nearest->path.string()) : Json(nullptr)},
          {"differs", std::move(differs)}};
}

std::string or_none(const std::string& value) { return value.empty() ? "none" : fmt::format("'{}'", value); }

std::string miss_text(const Explained& explained) {
  if (explained.nearest == nullptr) return "  not found; the cache has no entry for this kernel to compare with\n";
  std::string text = fmt::format("  not found; nearest is {}, which differs in\n", explained.nearest->path.string());
  for (const Difference& each : explained.differences) {
    text += fmt::format("    {}: wanted {}, stored {}\n", each.name, or_none(each.wanted), or_none(each.stored));
  }
  return text;
}

std::string as_text(const Explained& explained) {
  std::string text = fmt::format("{} {}: {}: key {}\n", explained.part.job.kernel, explained.part.job.arch->name,
                                 fmt::join(explained.part.entries, ", "), explained.part.key.digest());
  for (const KeyField& field : explained.part.key.fields())
    text += fmt::format("  {:<8}  {}\n", field.name, field.value);
  return text + (explained.found.empty() ? miss_text(explained) : fmt::format("  found in {}\n", explained.found));
}

void show(const std::vector<Explained>& all, bool json) {
  if (json) {
    Json kernels = Json::array();
    for (const Explained& each : all) kernels.push_back(as_json(each));
    return print_json({{"kernels", std::move(kernels)}});
  }
  std::string text;
  for (const Explained& each : all) text += as_text(each);
  print(text);
}

}  // namespace

int run_cache_explain(const Arguments& arguments) {
  Selection selection;
  std::string target = "cuda";
  bool check = false, json = false;
  Options options("cache explain", "The key of each kernel of a config, where it is found, and why not if it is not.");
  selection.declare(options);
  options.choice("--target", target, {"cuda", "cpu"}, "cubins for GPUs, or objects for this machine's processor");
  options.flag("--check", check, "cpu: with the memory and race checks");
  if (!options.json(json).parse(arguments)) return kOk;
  if (check && target != "cpu")
    throw Error(ErrorCode::config, "cache explain: --check is for --target cpu; allowed without it");

  EngineOptions engine = EngineOptions::from_environment();
  if (target == "cpu") engine.target = Target::cpu;
  engine.cpu.check = check;
  std::optional<Templates> templates;
  if (engine.template_dir) templates = Templates::from_directory(*engine.template_dir);
  const std::vector<Job> jobs = select_jobs(read_configs(selection.configs), selection);
  const auto toolchain = open_toolchain(engine);
  const Places places = open_places(engine, *toolchain);
  std::vector<Explained> all;
  for (const Job& job : jobs)
    for (Part& part : parts_of(job, *toolchain, templates)) all.push_back(explain(std::move(part), places));
  show(all, json);
  return kOk;
}

}  // namespace moegen::cli
