// SPDX-License-Identifier: Apache-2.0
// moegen cache ls|stats|where|verify|gc: the user's cubin cache from outside. cache_explain.cpp has the sixth.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/cache_folder.hpp"
#include "support/interrupt.hpp"
#include "support/json_output.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"

namespace moegen::cli {

int run_cache_explain(const Arguments& arguments);  // cache_explain.cpp

namespace {

using Listed = cache::Cache::Listed;

cache::Cache open_required() { return open_required_cache(EngineOptions::from_environment()); }

Json file_json(const Listed& file) {
  if (!file.entry) {
    return {
        {"path", file.path.string()}, {"bytes", file.bytes}, {"last_used", file.last_used}, {"bad", file.bad_reason}};
  }
  const cache::Entry& entry = *file.entry;
  return {{"path", file.path.string()}, {"bytes", file.bytes}, {"last_used", file.last_used},
          {"kernel", entry.kernel},     {"arch", entry.arch},  {"target", entry.target},
          {"compiler", entry.compiler}, {"key", entry.key},    {"bad", nullptr}};
}

Json files_json(const std::vector<Listed>& files) {
  Json list = Json::array();
  for (const Listed& file : files) list.push_back(file_json(file));
  return list;
}

bool is_bad(const Listed& file) { return !file.entry; }

std::string files_table(const std::vector<Listed>& files) {
  Table table({{"kernel"}, {"arch"}, {"target"}, {"compiler"}, {"bytes", Table::Align::right}, {"last used"}, {"key"}});
  for (const Listed& file : files) {
    if (is_bad(file)) continue;
    table.add({file.entry->kernel, file.entry->arch, file.entry->target, file.entry->compiler,
               std::to_string(file.bytes), file.last_used, file.entry->key});
  }
  return table.text();
}

std::string bad_lines(const std::vector<Listed>& files) {
  std::string text;
  for (const Listed& file : files) {
    if (is_bad(file)) text += fmt::format("{}: {}\n", file.path.string(), file.bad_reason);
  }
  return text;
}

int run_ls(const Arguments& arguments) {
  bool json = false;
  Options options("cache ls", "Every entry of the cache, verified.");
  if (!options.json(json).parse(arguments)) return kOk;
  const std::vector<Listed> files = open_required().list();
  if (json) {
    print_json({{"entries", files_json(files)}});
  } else {
    print(files_table(files) + bad_lines(files));
  }
  return kOk;
}

int run_stats(const Arguments& arguments) {
  bool json = false;
  Options options("cache stats", "What the cache holds and how it has served, over all processes.");
  if (!options.json(json).parse(arguments)) return kOk;
  const cache::Stats stats = open_required().stats();
  if (json) {
    print_json({{"entries", stats.entries},
                {"bytes", stats.bytes},
                {"hits", stats.hits},
                {"compiled", stats.compiled},
                {"corrupt", stats.corrupt}});
  } else {
    print(fmt::format("entries   {}\nbytes     {}\nhits      {}\ncompiled  {}\ncorrupt   {}\n", stats.entries,
                      stats.bytes, stats.hits, stats.compiled, stats.corrupt));
  }
  return kOk;
}

int run_where(const Arguments& arguments) {
  bool json = false;
  Options options("cache where", "The cache folder.");
  if (!options.json(json).parse(arguments)) return kOk;
  const EngineOptions engine = EngineOptions::from_environment();
  required_cache_folder(engine);
  const CacheFolder folder = cache_folder(engine);
  if (json) {
    print_json({{"directory", folder.path.string()}, {"variable", folder.variable}});
  } else {
    print(folder.path.string() + "\n");
  }
  return kOk;
}

int run_verify_cache(const Arguments& arguments) {
  bool json = false;
  Options options("cache verify", "Read every entry and check its digest; exit 1 if one is bad.");
  if (!options.json(json).parse(arguments)) return kOk;
  const std::vector<Listed> files = open_required().list();
  const auto num_bad = static_cast<std::size_t>(std::count_if(files.begin(), files.end(), is_bad));
  if (json) {
    Json bad = Json::array();
    for (const Listed& file : files) {
      if (is_bad(file)) bad.push_back({{"path", file.path.string()}, {"reason", file.bad_reason}});
    }
    print_json({{"entries", files.size()}, {"bad", std::move(bad)}});
  } else {
    print(bad_lines(files) + fmt::format("{} of {} files are sound\n", files.size() - num_bad, files.size()));
  }
  return num_bad == 0 ? kOk : kCheckFailed;
}

int run_gc(const Arguments& arguments) {
  std::optional<std::uint64_t> max_bytes;
  bool json = false;
  Options options("cache gc", "Delete the least recently used entries, old temporaries and files set aside.");
  options.size("--max-size", max_bytes, "bytes to keep, with an optional K, M, G or T (default: the cap, 2G)");
  if (!options.json(json).parse(arguments)) return kOk;
  const EngineOptions engine = EngineOptions::from_environment();
  cache::Cache cache = open_required_cache(engine);
  if (const std::string problem = cache.problem(); !problem.empty()) throw Error(ErrorCode::cache, problem);
  const DeferInterrupts until_consistent;
  const std::uint64_t freed = cache.collect(max_bytes.value_or(engine.cache_max_bytes));
  const cache::Stats stats = cache.stats();
  if (json) {
    print_json({{"freed_bytes", freed}, {"entries", stats.entries}, {"bytes", stats.bytes}});
  } else {
    print(fmt::format("freed {} bytes; {} entries with {} bytes remain\n", freed, stats.entries, stats.bytes));
  }
  return kOk;
}

}  // namespace

std::span<const Command> cache_commands() noexcept {
  static constexpr Command kCommands[] = {
      {"ls", "every entry, with its kernel, arch, target and last use", run_ls},
      {"stats", "entries, bytes, hits, compiles, bad entries", run_stats},
      {"where", "the folder", run_where},
      {"verify", "read and check every entry", run_verify_cache},
      {"gc", "delete what was not used for longest", run_gc},
      {"explain", "the key of each kernel of a config, and why a lookup misses", run_cache_explain},
  };
  return kCommands;
}

}  // namespace moegen::cli
