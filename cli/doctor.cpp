// SPDX-License-Identifier: Apache-2.0
// moegen doctor: what this machine has and lacks, and how to get it.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>

#include "command.hpp"
#include "cubin_info.hpp"
#include "exit_code.hpp"
#include "support/json_output.hpp"
#include "support/machine.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"

namespace moegen::cli {
namespace {

struct Facts {
  DriverFacts driver;
  NvrtcFacts nvrtc;
  CpuTargetFacts cpu_target;
  std::string environment_problem;  ///< what is wrong with a variable; the cache and packs are then not looked at
  FolderFacts folder;
  std::vector<PackFact> packs;
  std::vector<VariableFact> variables;
};

Facts gather() {
  Facts facts{driver_facts(), nvrtc_facts(), cpu_target_facts(), "", {}, {}, variable_facts()};
  try {
    const EngineOptions options = EngineOptions::from_environment();
    facts.folder = folder_facts(options);
    facts.packs = pack_facts(options);
  } catch (const Error& error) {
    facts.environment_problem = error.what();
  }
  return facts;
}

bool has_usable_device(const Facts& facts) {
  return std::any_of(facts.driver.devices.begin(), facts.driver.devices.end(),
                     [](const DeviceFact& device) { return !device.arch.empty(); });
}

/// Why the GPU cannot be used; empty if it can.
std::string gpu_problem(const Facts& facts) {
  if (!facts.driver.problem.empty()) return facts.driver.problem;
  if (facts.driver.devices.empty()) return "the driver finds no device";
  return has_usable_device(facts) ? "" : "no device has an arch that moegen compiles for (compute capability 8.0 up)";
}

// ---- text ----

/// Subject, verdict, detail.
using Line = std::vector<std::string>;

Line verdict(const std::string& subject, const std::string& problem, const std::string& detail) {
  return problem.empty() ? Line{subject, "ok", detail} : Line{subject, "missing", problem};
}

void add_devices(Table& table, const DriverFacts& driver) {
  for (const DeviceFact& device : driver.devices) {
    const std::string subject = fmt::format("device {}", device.ordinal);
    if (!device.problem.empty()) {
      table.add({subject, "bad", device.problem});
    } else if (device.arch.empty()) {
      table.add({subject, "no",
                 fmt::format("{}, compute capability {}: moegen needs 8.0 or later", device.name, device.capability)});
    } else {
      table.add(
          {subject, "ok", fmt::format("{}, compute capability {}, {}", device.name, device.capability, device.arch)});
    }
  }
  if (driver.problem.empty() && driver.devices.empty()) table.add({"device", "missing", "the driver finds none"});
}

std::string nvrtc_detail(const NvrtcFacts& nvrtc) {
  std::string text = fmt::format("{} at {}; compiles for {}", nvrtc.version, nvrtc.path, fmt::join(nvrtc.archs, ", "));
  if (!nvrtc.missing_archs.empty()) {
    text += fmt::format("; not for {} (a newer CUDA toolkit does)", fmt::join(nvrtc.missing_archs, ", "));
  }
  return text;
}

std::string folder_detail(const FolderFacts& folder) {
  std::string text =
      fmt::format("{} (from {}){}", folder.path.string(), folder.variable, folder.exists ? "" : ", not made yet");
  text += fmt::format("; {} entries, {} bytes", folder.entries, folder.bytes);
  if (!folder.file_system.empty()) text += fmt::format("; on {}", folder.file_system);
  if (folder.owner) text += fmt::format("; owner uid {}", *folder.owner);
  if (folder.free_bytes) text += fmt::format("; {} MiB free", *folder.free_bytes >> 20);
  return text;
}

void add_environment(Table& table, const Facts& facts) {
  if (!facts.environment_problem.empty()) table.add({"environment", "bad", facts.environment_problem});
  for (const VariableFact& variable : facts.variables) {
    if (variable.value) {
      table.add({variable.name, "set", fmt::format("'{}' ({})", *variable.value, variable.meaning)});
    }
  }
}

std::string as_text(const Facts& facts) {
  Table table({{"subject"}, {"state"}, {"detail"}});
  table.add({"moegen", "ok", MOEGEN_VERSION});
  table.add(
      verdict("driver", facts.driver.problem, fmt::format("CUDA {} at {}", facts.driver.version, facts.driver.path)));
  add_devices(table, facts.driver);
  table.add(verdict("NVRTC", facts.nvrtc.problem, nvrtc_detail(facts.nvrtc)));
  if (facts.environment_problem.empty()) {
    table.add(facts.folder.problem.empty() ? Line{"cache", "ok", folder_detail(facts.folder)}
                                           : Line{"cache", "bad", facts.folder.problem});
  }
  for (const PackFact& pack : facts.packs) {
    table.add(pack.problem.empty() ? Line{"pack", "ok", fmt::format("{}, {} kernels", pack.path.string(), pack.kernels)}
                                   : Line{"pack", "bad", pack.problem});
  }
  add_environment(table, facts);
  table.add(can_read_cubins() ? Line{"LLVM", "ok", "built in, for 'moegen inspect'"}
                              : Line{"LLVM", "missing", "'moegen inspect' needs it: install llvm-19-dev and rebuild"});
  table.add(verdict("CPU target", facts.cpu_target.problem, facts.cpu_target.version));
  table.add({"NCCL", "later", "not needed yet: expert parallelism comes with a later version"});
  return table.text();
}

// ---- JSON ----

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json driver_json(const DriverFacts& driver) {
  return {{"found", driver.problem.empty()},
          {"version", or_null(driver.version)},
          {"path", or_null(driver.path)},
          {"problem", or_null(driver.problem)}};
}

Json devices_json(const DriverFacts& driver) {
  Json list = Json::array();
  for (const DeviceFact& device : driver.devices) {
    list.push_back({{"device", device.ordinal},
                    {"name", or_null(device.name)},
                    {"compute_capability", or_null(device.capability)},
                    {"arch", or_null(device.arch)},
                    {"problem", or_null(device.problem)}});
  }
  return list;
}

Json nvrtc_json(const NvrtcFacts& nvrtc) {
  return {{"found", nvrtc.problem.empty()},       {"version", or_null(nvrtc.version)},
          {"path", or_null(nvrtc.path)},          {"archs", nvrtc.archs},
          {"missing_archs", nvrtc.missing_archs}, {"problem", or_null(nvrtc.problem)}};
}

Json cpu_target_json(const CpuTargetFacts& target) {
  return {
      {"found", target.problem.empty()}, {"version", or_null(target.version)}, {"problem", or_null(target.problem)}};
}

Json folder_json(const FolderFacts& folder) {
  return {{"directory", or_null(folder.path.string())},
          {"variable", or_null(folder.variable)},
          {"exists", folder.exists},
          {"usable", folder.problem.empty()},
          {"file_system", or_null(folder.file_system)},
          {"owner", folder.owner ? Json(*folder.owner) : Json(nullptr)},
          {"free_bytes", folder.free_bytes ? Json(*folder.free_bytes) : Json(nullptr)},
          {"entries", folder.entries},
          {"bytes", folder.bytes},
          {"problem", or_null(folder.problem)}};
}

Json packs_json(const std::vector<PackFact>& packs) {
  Json list = Json::array();
  for (const PackFact& pack : packs) {
    list.push_back({{"path", pack.path.string()}, {"kernels", pack.kernels}, {"problem", or_null(pack.problem)}});
  }
  return list;
}

Json environment_json(const Facts& facts) {
  Json variables = Json::array();
  for (const VariableFact& variable : facts.variables) {
    variables.push_back({{"name", variable.name}, {"value", variable.value ? Json(*variable.value) : Json(nullptr)}});
  }
  return {{"problem", or_null(facts.environment_problem)}, {"variables", std::move(variables)}};
}

Json as_json(const Facts& facts) {
  return {{"version", MOEGEN_VERSION},
          {"driver", driver_json(facts.driver)},
          {"devices", devices_json(facts.driver)},
          {"nvrtc", nvrtc_json(facts.nvrtc)},
          {"cache", folder_json(facts.folder)},
          {"packs", packs_json(facts.packs)},
          {"environment", environment_json(facts)},
          {"llvm", {{"inspect", can_read_cubins()}}},
          {"cpu_target", cpu_target_json(facts.cpu_target)},
          {"nccl", {{"needed", false}}}};
}

std::string problem_of(const Facts& facts, std::string_view what) {
  if (what == "gpu") return gpu_problem(facts);
  return what == "cpu" ? facts.cpu_target.problem : facts.nvrtc.problem;
}

/// Whether all of `required` ("nvrtc", "gpu", "cpu") are there; says on standard error what is not.
bool has_required(const Facts& facts, const std::vector<std::string>& required) {
  bool all = true;
  for (const std::string& what : required) {
    const std::string problem = problem_of(facts, what);
    if (problem.empty()) continue;
    note(fmt::format("doctor: {} is required: {}", what, problem));
    all = false;
  }
  return all;
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  std::vector<std::string> required;
  bool json = false;
  Options options("doctor", "What this machine has and lacks for moegen, and how to get it.");
  options.choices("--require", required, {"nvrtc", "gpu", "cpu"}, "exit 1 if it is missing; may be repeated");
  if (!options.json(json).parse(arguments)) return kOk;

  const Facts facts = gather();
  if (json) {
    print_json(as_json(facts));
  } else {
    print(as_text(facts));
  }
  return has_required(facts, required) ? kOk : kCheckFailed;
}

}  // namespace moegen::cli
