// SPDX-License-Identifier: Apache-2.0
// What `moegen doctor` finds out about the machine, one struct a subject. Nothing here throws for what it finds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <moegen/engine.hpp>

namespace moegen::cli {

struct DeviceFact {
  int ordinal = 0;
  std::string name, capability, arch;  ///< arch: the one moegen compiles for it; empty if it has none
  std::string problem;                 ///< not empty: the device could not be asked
};

struct DriverFacts {
  std::string version, path, problem;  ///< problem: why there is none and how to get it
  std::vector<DeviceFact> devices;
};
DriverFacts driver_facts();

struct NvrtcFacts {
  std::string version, path, problem;
  std::vector<std::string> archs, missing_archs;  ///< of moegen's archs, those it compiles for and those it does not
};
NvrtcFacts nvrtc_facts();

struct CpuTargetFacts {
  std::string version, problem;
};
/// Loads libmoegen_cpu.so, and with it LLVM.
CpuTargetFacts cpu_target_facts();

struct FolderFacts {
  std::filesystem::path path;
  std::string variable, problem;
  bool exists = false;
  std::string file_system;
  std::optional<std::uint64_t> owner;  ///< numeric user id: the password database may not exist
  std::optional<std::uint64_t> free_bytes;
  std::uint64_t entries = 0, bytes = 0;
};
FolderFacts folder_facts(const EngineOptions& options);

struct PackFact {
  std::filesystem::path path;
  std::size_t kernels = 0;
  std::string problem;
};
std::vector<PackFact> pack_facts(const EngineOptions& options);

struct VariableFact {
  std::string name;
  std::optional<std::string> value;  ///< nothing: not set
  std::string meaning;
};
/// The variables that moegen reads. EngineOptions::from_environment refuses any other that starts with MOEGEN_.
std::vector<VariableFact> variable_facts();

}  // namespace moegen::cli
