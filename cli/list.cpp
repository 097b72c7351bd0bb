// SPDX-License-Identifier: Apache-2.0
// moegen list: kernel families and archs, or the kernels that configs need.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <moegen/arch.hpp>
#include <moegen/family.hpp>
#include <moegen/plan.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/json_output.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"

namespace moegen::cli {
namespace {

struct NamedStatus {
  std::string name;
  bool available;
};

std::string_view status_text(bool available) { return available ? "available" : "later version"; }

std::vector<NamedStatus> families() {
  std::vector<NamedStatus> found;
  for (const Family* family : all_families()) found.push_back({std::string(family->name), true});
  for (const std::string_view name : future_families()) found.push_back({std::string(name), false});
  return found;
}

std::vector<NamedStatus> kernels(const Config& config) {
  const std::vector<std::string> available = available_kernels_of(config);
  std::vector<NamedStatus> found;
  for (const std::string& kernel : kernels_of(config)) {
    found.push_back({kernel, std::find(available.begin(), available.end(), kernel) != available.end()});
  }
  return found;
}

std::string capability(const Arch& arch) { return fmt::format("{}.{}", arch.major, arch.minor); }

Json archs_json() {
  Json archs = Json::array();
  for (const Arch& arch : all_archs()) {
    archs.push_back({{"arch", arch.name},
                     {"compute_capability", capability(arch)},
                     {"accelerated", arch.accelerated},
                     {"max_shared_bytes", arch.max_shared_bytes},
                     {"clusters", arch.clusters}});
  }
  return archs;
}

Json families_json() {
  Json list = Json::array();
  for (const NamedStatus& family : families())
    list.push_back({{"family", family.name}, {"available", family.available}});
  return list;
}

Json kernels_json(const std::vector<Config>& configs) {
  Json list = Json::array();
  for (const Config& config : configs) {
    for (const NamedStatus& kernel : kernels(config)) {
      list.push_back({{"config", config->name}, {"kernel", kernel.name}, {"available", kernel.available}});
    }
  }
  return list;
}

std::string overview() {
  Table family_table({{"family"}, {"status"}});
  for (const NamedStatus& family : families()) {
    family_table.add({family.name, std::string(status_text(family.available))});
  }
  Table arch_table({{"arch"}, {"capability"}, {"shared bytes", Table::Align::right}, {"clusters"}});
  for (const Arch& arch : all_archs()) {
    arch_table.add({std::string(arch.name), capability(arch), std::to_string(arch.max_shared_bytes),
                    arch.clusters ? "yes" : "no"});
  }
  return family_table.text() + "\n" + arch_table.text();
}

std::string kernel_table(const std::vector<Config>& configs) {
  Table table({{"config"}, {"kernel"}, {"status"}});
  for (const Config& config : configs) {
    for (const NamedStatus& kernel : kernels(config)) {
      table.add({config->name, kernel.name, std::string(status_text(kernel.available))});
    }
  }
  return table.text();
}

}  // namespace

int run_list(const Arguments& arguments) {
  std::vector<std::string> paths;
  bool json = false;
  Options options("list", "Kernel families and GPU architectures, or the kernels that configs need.");
  options.optional_positionals("CONFIG", paths, "config files; '-' reads standard input").json(json);
  if (!options.parse(arguments)) return kOk;

  const std::vector<Config> configs = read_configs(paths);
  if (json && configs.empty()) {
    print_json({{"families", families_json()}, {"archs", archs_json()}});
  } else if (json) {
    print_json({{"kernels", kernels_json(configs)}});
  } else {
    print(configs.empty() ? overview() : kernel_table(configs));
  }
  return kOk;
}

}  // namespace moegen::cli
