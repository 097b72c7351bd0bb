// SPDX-License-Identifier: Apache-2.0
#include "support/machine.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/core.h>

#include <moegen/arch.hpp>
#include <moegen/error.hpp>

#include "cache/pack.hpp"
#include "cpu/launcher/library.hpp"
#include "cpu/target.hpp"
#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "cuda/nvrtc.hpp"
#include "support/cache_folder.hpp"

namespace moegen::cli {
namespace {

namespace fs = std::filesystem;

DeviceFact device_fact(int ordinal) {
  DeviceFact fact;
  fact.ordinal = ordinal;
  try {
    const cuda::DeviceInfo info = cuda::device_info(ordinal);
    fact.name = info.name;
    fact.capability = fmt::format("{}.{}", info.major, info.minor);
    if (const Arch* arch = arch_for_device(info.major, info.minor)) fact.arch = arch->name;
  } catch (const Error& error) {
    fact.problem = error.what();
  }
  return fact;
}

/// linux/magic.h and the kernel's file systems; what is not here is shown as its number.
std::string file_system_name(long type) {
  struct Known {
    unsigned long type;
    const char* name;
  };
  constexpr Known kKnown[] = {{0xEF53, "ext4"},      {0x58465342, "xfs"},       {0x9123683E, "btrfs"},
                              {0x01021994, "tmpfs"}, {0x794C7630, "overlayfs"}, {0x6969, "nfs"},
                              {0xFF534D42, "cifs"},  {0xFE534D42, "smb"},       {0x0BD00BD0, "lustre"},
                              {0x47504653, "gpfs"},  {0x65735546, "fuse"},      {0x2FC12FC1, "zfs"},
                              {0x00C36400, "ceph"},  {0x19830326, "beegfs"},    {0x01021997, "9p"}};
  const auto bits = static_cast<unsigned long>(type) & 0xFFFFFFFFUL;
  for (const Known& known : kKnown) {
    if (known.type == bits) return known.name;
  }
  return fmt::format("{:#x}", bits);
}

fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  return path;
}

void add_file_system(FolderFacts& facts, const fs::path& path) {
  struct statfs system = {};
  if (::statfs(path.c_str(), &system) == 0) facts.file_system = file_system_name(static_cast<long>(system.f_type));
  struct statvfs space = {};
  if (::statvfs(path.c_str(), &space) == 0) facts.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) facts.owner = status.st_uid;
}

struct Variable {
  const char* name;
  const char* meaning;
};
constexpr Variable kVariables[] = {
    {"MOEGEN_CACHE_DIR", "cache folder"},
    {"MOEGEN_PACKS", "pack files, separated by colons"},
    {"MOEGEN_JIT", "'off': a kernel that is not found is an error"},
    {"MOEGEN_LOG", "off, warning, info or debug"},
    {"MOEGEN_TEMPLATE_DIR", "device templates to use instead of the built-in ones"},
    {"MOEGEN_REQUIRE_GPU", "tests: '1' turns a skip for want of a GPU into a failure"},
    {"XDG_CACHE_HOME", "parent of the cache folder"},
    {"HOME", "has the cache folder below .cache"},
    {"NVRTC_APPEND_FLAGS", "refused: would change code behind the cache key"},
};

std::optional<std::string> value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

DriverFacts driver_facts() {
  DriverFacts facts;
  const cuda::Driver* driver = cuda::find_driver(&facts.problem);
  if (driver == nullptr) return facts;
  facts.problem.clear();
  facts.version = cuda::version_text(driver->version);
  facts.path = driver->path;
  for (int ordinal = 0; ordinal < cuda::num_devices(); ++ordinal) facts.devices.push_back(device_fact(ordinal));
  return facts;
}

NvrtcFacts nvrtc_facts() {
  NvrtcFacts facts;
  const auto nvrtc = cuda::Nvrtc::load(&facts.problem);
  if (!nvrtc) return facts;
  facts.problem.clear();
  facts.version = nvrtc->version();
  facts.path = nvrtc->path();
  const std::vector<std::string> supported = nvrtc->supported_archs();
  for (const Arch& arch : all_archs()) {
    const std::string base = fmt::format("sm_{}{}", arch.major, arch.minor);
    const bool known = std::find(supported.begin(), supported.end(), base) != supported.end();
    (known ? facts.archs : facts.missing_archs).emplace_back(arch.name);
  }
  return facts;
}

CpuTargetFacts cpu_target_facts() {
  CpuTargetFacts facts;
  if (const cpu::Target* target = cpu::load_target(&facts.problem)) facts.version = target->version();
  return facts;
}

FolderFacts folder_facts(const EngineOptions& options) {
  FolderFacts facts;
  const CacheFolder folder = cache_folder(options);
  facts.path = folder.path;
  facts.variable = folder.variable;
  if (folder.path.empty()) {
    facts.problem = "no cache folder: kernels stay in memory; set MOEGEN_CACHE_DIR or HOME";
    return facts;
  }
  std::error_code ignored;
  facts.exists = fs::exists(folder.path, ignored);
  add_file_system(facts, nearest_existing(folder.path));
  EngineOptions quiet = options;  // what is wrong becomes part of the report instead
  quiet.log_level = LogLevel::off;
  const cache::Cache cache = open_cache(quiet);
  facts.problem = cache.problem();
  const cache::Stats stats = cache.stats();
  facts.entries = stats.entries;
  facts.bytes = stats.bytes;
  return facts;
}

std::vector<PackFact> pack_facts(const EngineOptions& options) {
  std::vector<PackFact> facts;
  for (const fs::path& path : options.packs) {
    PackFact& fact = facts.emplace_back(PackFact{path, 0, ""});
    try {
      fact.kernels = cache::Pack::open(path).keys().size();
    } catch (const Error& error) {
      fact.problem = error.what();
    }
  }
  return facts;
}

std::vector<VariableFact> variable_facts() {
  std::vector<VariableFact> facts;
  for (const Variable& variable : kVariables) {
    facts.push_back({variable.name, value_of(variable.name), variable.meaning});
  }
  return facts;
}

}  // namespace moegen::cli
