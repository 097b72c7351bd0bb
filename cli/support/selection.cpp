// SPDX-License-Identifier: Apache-2.0
#include "support/selection.hpp"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>
#include <moegen/family.hpp>

#include "did_you_mean.hpp"
#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view family_of(std::string_view kernel) { return kernel.substr(0, kernel.find('.')); }

bool names_kernel(std::string_view word, std::string_view kernel) {
  return word == kernel || word == family_of(kernel);
}

bool comes_later(std::string_view word) {
  const auto later = future_families();
  return std::find(later.begin(), later.end(), family_of(word)) != later.end();
}

std::vector<std::string_view> available_families() {
  std::vector<std::string_view> names;
  for (const Family* family : all_families()) names.push_back(family->name);
  return names;
}

[[noreturn]] void fail_later(const std::string& word) {
  throw Error(ErrorCode::unsupported, fmt::format("kernel '{}' comes with a later version of moegen; this one has {}",
                                                  word, fmt::join(available_families(), ", ")));
}

/// `word` names nothing that `config` needs and this version has: says which of the possible reasons it is.
[[noreturn]] void fail_unmatched(const Config& config, const std::string& word) {
  if (comes_later(word)) fail_later(word);
  const Names needed = kernels_of(config);
  if (find_family(word) != nullptr) {
    throw Error(ErrorCode::config, fmt::format("{}: kernel '{}' is not needed by this config; it needs {}",
                                               config.origin(), word, fmt::join(needed, ", ")));
  }
  std::vector<std::string_view> candidates = available_families();
  for (const std::string_view family : future_families()) candidates.push_back(family);
  candidates.insert(candidates.end(), needed.begin(), needed.end());
  throw Error(ErrorCode::config, fmt::format("--kernel: '{}' is not known; allowed {}{}", word, fmt::join(needed, ", "),
                                             did_you_mean(word, candidates)));
}

}  // namespace

void Selection::declare(Options& options) {
  options.positionals("CONFIG", configs, "config files; '-' reads standard input");
  declare_kernels(options);
  declare_archs(options);
}

void Selection::declare_kernels(Options& options) {
  options.texts("--kernel", kernels, "K", "a family or one kernel; may be repeated (default: all)");
}

void Selection::declare_archs(Options& options) {
  options.texts("--arch", archs, "ARCH", "sm_80 .. sm_120a or all; may be repeated (default: sm_90a)");
}

std::vector<Config> read_configs(const std::vector<std::string>& paths) {
  if (std::count(paths.begin(), paths.end(), "-") > 1) {
    throw Error(ErrorCode::config, "CONFIG: '-' is given more than once; standard input can be read once");
  }
  std::vector<Config> configs;
  for (const std::string& path : paths) configs.push_back(Config::from_file(path));
  return configs;
}

std::vector<std::string> select_kernels(const Config& config, const std::vector<std::string>& words) {
  Names available = available_kernels_of(config);
  if (words.empty()) return available;
  for (const std::string& word : words) {
    const auto matches = [&word](const std::string& kernel) { return names_kernel(word, kernel); };
    if (std::none_of(available.begin(), available.end(), matches)) fail_unmatched(config, word);
  }
  Names selected;
  for (const std::string& kernel : available) {
    const auto matches = [&kernel](const std::string& word) { return names_kernel(word, kernel); };
    if (std::any_of(words.begin(), words.end(), matches)) selected.push_back(kernel);
  }
  return selected;
}

std::vector<const Arch*> select_archs(const std::vector<std::string>& words) {
  if (words.empty()) return {&find_arch("sm_90a")};
  const bool all = contains(words, "all");
  Names wanted;
  for (const std::string& word : words) {
    if (word != "all") wanted.emplace_back(find_arch(word).name);
  }
  std::vector<const Arch*> selected;
  for (const Arch& arch : all_archs()) {
    if (all || contains(wanted, arch.name)) selected.push_back(&arch);
  }
  return selected;
}

std::vector<Job> select_jobs(const std::vector<Config>& configs, const Selection& selection) {
  const std::vector<const Arch*> archs = select_archs(selection.archs);
  std::vector<Job> jobs;
  for (const Config& config : configs) {
    for (const std::string& kernel : select_kernels(config, selection.kernels)) {
      for (const Arch* arch : archs) jobs.push_back({config, kernel, arch});
    }
  }
  return jobs;
}

std::vector<std::string> missing_kernels(const std::vector<Config>& configs) {
  Names missing;
  for (const Config& config : configs) {
    const Names available = available_kernels_of(config);
    for (const std::string& kernel : kernels_of(config)) {
      if (!contains(available, kernel) && !contains(missing, kernel)) missing.push_back(kernel);
    }
  }
  return missing;
}

void note_missing_kernels(const std::vector<Config>& configs) {
  const Names missing = missing_kernels(configs);
  if (missing.empty()) return;
  note(fmt::format("left out, because they come with a later version: {}", fmt::join(missing, ", ")));
}

}  // namespace moegen::cli
