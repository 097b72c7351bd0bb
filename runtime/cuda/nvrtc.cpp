// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvrtc.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/error.hpp>

#include "cuda/nvrtc_api.hpp"
#include "cuda/resource_report.hpp"
#include "shared_library.hpp"

namespace moegen::cuda {

struct Nvrtc::State {
  NvrtcApi api{};
  int major = 0, minor = 0;
  std::string path;
  std::vector<int> archs;  ///< compute capabilities, e.g. 90
};

namespace {

namespace fs = std::filesystem;

// 12.9 is the first with --no-cache; without it a cached compile says nothing about registers and spills.
constexpr int kMinimumMajor = 12, kMinimumMinor = 9;
constexpr std::string_view kVersionPrefix = "nvrtc-";
constexpr const char* kFileNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr std::string_view kHowToGetOne =
    "install a CUDA toolkit 12.9 or later, or the wheel nvidia-cuda-nvrtc and configure moegen with "
    "-DMOEGEN_NVRTC_DIR=<folder of libnvrtc.so>";

void add_folder(std::vector<std::string>& files, const fs::path& folder) {
  if (folder.empty()) return;
  for (const char* name : kFileNames) files.push_back((folder / name).string());
}

/// /usr/local/cuda-*, newest version first.
std::vector<fs::path> versioned_toolkits() {
  std::vector<std::pair<std::vector<int>, fs::path>> found;
  std::error_code error;
  for (const auto& item : fs::directory_iterator("/usr/local", error)) {
    const std::string name = item.path().filename().string();
    int major = 0, minor = 0;
    if (std::sscanf(name.c_str(), "cuda-%d.%d", &major, &minor) >= 1) found.push_back({{major, minor}, item.path()});
  }
  std::ranges::sort(found, std::greater{});
  std::vector<fs::path> folders;
  for (auto& [version, path] : found) folders.push_back(path / "lib64");
  return folders;
}

bool bind_all(const SharedLibrary& library, NvrtcApi& api) {
  const auto bind = [&](auto& slot, const char* name) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(library.find(name));
    return slot != nullptr;
  };
  return bind(api.get_error_string, "nvrtcGetErrorString") && bind(api.version, "nvrtcVersion") &&
         bind(api.get_num_supported_archs, "nvrtcGetNumSupportedArchs") &&
         bind(api.get_supported_archs, "nvrtcGetSupportedArchs") && bind(api.create_program, "nvrtcCreateProgram") &&
         bind(api.destroy_program, "nvrtcDestroyProgram") && bind(api.compile_program, "nvrtcCompileProgram") &&
         bind(api.get_program_log_size, "nvrtcGetProgramLogSize") && bind(api.get_program_log, "nvrtcGetProgramLog") &&
         bind(api.get_cubin_size, "nvrtcGetCUBINSize") && bind(api.get_cubin, "nvrtcGetCUBIN");
}

std::vector<int> read_archs(const NvrtcApi& api) {
  int count = 0;
  if (api.get_num_supported_archs(&count) != kNvrtcSuccess || count <= 0) return {};
  std::vector<int> archs(static_cast<std::size_t>(count));
  if (api.get_supported_archs(archs.data()) != kNvrtcSuccess) return {};
  return archs;
}

std::string builtins_name(std::string_view version) { return fmt::format("libnvrtc-builtins.so.{}", version); }

/// NVRTC opens this one by its bare name when it compiles, which finds it only if it is in the process by then.
bool open_builtins(const Nvrtc::State& state, std::string& why) {
  const fs::path file =
      fs::path(state.path).parent_path() / builtins_name(fmt::format("{}.{}", state.major, state.minor));
  std::error_code error;
  return !fs::exists(file, error) || SharedLibrary::open(file.string(), why);
}

/// A usable NVRTC, or null and in `why` what is wrong with this file.
std::shared_ptr<Nvrtc::State> try_file(const std::string& file, std::string& why) {
  const auto library = SharedLibrary::open(file, why);
  if (!library) return nullptr;
  auto state = std::make_shared<Nvrtc::State>();
  state->path = library->path();
  if (!bind_all(*library, state->api) || state->api.version(&state->major, &state->minor) != kNvrtcSuccess) {
    why = fmt::format("'{}' is not an NVRTC that moegen knows", state->path);
    return nullptr;
  }
  if (std::pair(state->major, state->minor) < std::pair(kMinimumMajor, kMinimumMinor)) {
    why = fmt::format("'{}' is NVRTC {}.{}, too old", state->path, state->major, state->minor);
    return nullptr;
  }
  if (!open_builtins(*state, why)) return nullptr;
  state->archs = read_archs(state->api);
  return state;
}

/// A file that is not there says nothing of interest; one that is there and does not do is worth a word.
bool worth_telling(const std::string& file, const std::string& why) {
  std::error_code error;
  return fs::exists(file, error) || why.find("cannot open shared object file: No such file") == std::string::npos;
}

void refuse_append_flags() {
  const char* flags = std::getenv("NVRTC_APPEND_FLAGS");
  if (!flags || !*flags) return;
  throw Error(ErrorCode::config, fmt::format("environment: NVRTC_APPEND_FLAGS is '{}', which would change kernels "
                                             "behind the cache's back; allowed unset or empty",
                                             flags));
}

/// One NVRTC program.
class Program {
 public:
  Program(const NvrtcApi& api, const std::string& source, const std::string& name) : api_(api) {
    const NvrtcResult result = api.create_program(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
    check(result, "nvrtcCreateProgram", name);
  }
  ~Program() { api_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  NvrtcResult compile(const std::vector<std::string>& flags) {
    std::vector<const char*> options;
    for (const std::string& flag : flags) options.push_back(flag.c_str());
    return api_.compile_program(program_, static_cast<int>(options.size()), options.data());
  }

  std::string log() const { return read(api_.get_program_log_size, api_.get_program_log, "nvrtcGetProgramLog", true); }
  std::string cubin() const { return read(api_.get_cubin_size, api_.get_cubin, "nvrtcGetCUBIN", false); }

 private:
  void check(NvrtcResult result, std::string_view call, std::string_view object) const {
    if (result == kNvrtcSuccess) return;
    throw Error(ErrorCode::compile,
                fmt::format("{}: {} failed with {} ({})", object, call, api_.get_error_string(result), result));
  }

  template <class Size, class Get>
  std::string read(Size size, Get get, std::string_view call, bool is_text) const {
    std::size_t bytes = 0;
    check(size(program_, &bytes), call, "program");
    std::string text(bytes, '\0');
    if (bytes > 0) check(get(program_, text.data()), call, "program");
    while (is_text && !text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }

  const NvrtcApi& api_;
  NvrtcProgram program_ = nullptr;
};

bool is_elf(std::string_view bytes) {
  return bytes.starts_with(
      "\x7f"
      "ELF");
}

/// Every entry point has its code in a section of its own, named after it.
bool has_entry(std::string_view cubin, const std::string& entry) {
  std::string section = ".text." + entry;
  section.push_back('\0');
  return cubin.find(section) != std::string_view::npos;
}

[[noreturn]] void refuse(const std::string& what, std::string_view source, std::string log) {
  throw CompileError(what, std::string(source), std::move(log));
}

/// Resources of `entries` in that order; refuses a cubin that is empty or lacks one.
std::vector<EntryResources> checked_resources(const CompiledCubin& compiled, const std::string& label,
                                              std::string_view source, const std::vector<std::string>& entries) {
  if (!is_elf(compiled.cubin))
    refuse(fmt::format("{}: the compiler gave {} bytes that are no ELF file", label, compiled.cubin.size()), source,
           compiled.log);
  const auto reported = parse_resource_report(compiled.log);
  std::vector<EntryResources> resources;
  for (const std::string& entry : entries) {
    if (!has_entry(compiled.cubin, entry))
      refuse(fmt::format("{}: the cubin has no entry point '{}'", label, entry), source, compiled.log);
    const EntryResources* found = find_resources(reported, entry);
    if (!found)
      refuse(fmt::format("{}: the compiler reported no resources for entry point '{}'", label, entry), source,
             compiled.log);
    resources.push_back(*found);
  }
  return resources;
}

std::vector<std::string> arch_names(const std::vector<int>& archs) {
  std::vector<std::string> names;
  for (const int arch : archs) names.push_back(fmt::format("sm_{}", arch));
  return names;
}

}  // namespace

std::vector<std::string> compile_flags(const Arch& arch) {
  return {fmt::format("--gpu-architecture={}", arch.name), "--std=c++20", "--no-cache", "--ptxas-options=-v"};
}

std::vector<std::string> Nvrtc::candidates() {
  std::vector<std::string> files(std::begin(kFileNames), std::end(kFileNames));
  add_folder(files, "/usr/local/cuda/lib64");
  for (const fs::path& folder : versioned_toolkits()) add_folder(files, folder);
  add_folder(files, MOEGEN_NVRTC_DIR);
  const std::string here = folder_of_this_code();
  if (!here.empty()) add_folder(files, fs::path(here).parent_path() / "lib/moegen/nvrtc");
  return files;
}

std::shared_ptr<const Nvrtc> Nvrtc::load_from(const std::vector<std::string>& candidates, std::string& why) {
  std::vector<std::string> reasons;
  for (const std::string& file : candidates) {
    std::string reason;
    if (auto state = try_file(file, reason)) return std::make_shared<const Nvrtc>(std::move(state));
    if (worth_telling(file, reason) && std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
  }
  const std::string found = reasons.empty() ? "no libnvrtc was found" : fmt::format("{}", fmt::join(reasons, "; "));
  why = fmt::format("no NVRTC 12.9 or later: {}; {}", found, kHowToGetOne);
  return nullptr;
}

std::shared_ptr<const Nvrtc> Nvrtc::load(std::string* why) {
  struct Loaded {
    std::shared_ptr<const Nvrtc> nvrtc;
    std::string why;
  };
  static const Loaded loaded = [] {
    Loaded result;
    result.nvrtc = load_from(candidates(), result.why);
    return result;
  }();
  if (!loaded.nvrtc && why) *why = loaded.why;
  return loaded.nvrtc;
}

bool Nvrtc::on_this_machine(std::string_view version) {
  if (!version.starts_with(kVersionPrefix)) return false;
  const std::string name = builtins_name(version.substr(kVersionPrefix.size()));
  const auto lies_beside = [&](const std::string& file) {
    std::error_code error;
    const fs::path folder = fs::path(file).parent_path();
    return !folder.empty() && fs::exists(folder / name, error);
  };
  std::string why;
  return std::ranges::any_of(candidates(), lies_beside) || SharedLibrary::open(name, why);
}

std::string Nvrtc::version() const { return fmt::format("{}{}.{}", kVersionPrefix, state_->major, state_->minor); }

int Nvrtc::version_number() const noexcept { return state_->major * 1000 + state_->minor * 10; }

std::string Nvrtc::path() const { return state_->path; }

std::vector<std::string> Nvrtc::supported_archs() const { return arch_names(state_->archs); }

CompiledCubin Nvrtc::compile(std::string_view source, const std::string& file_name, const Arch& arch,
                             const std::vector<std::string>& entries) const {
  refuse_append_flags();
  if (std::ranges::find(state_->archs, arch.major * 10 + arch.minor) == state_->archs.end())
    throw Error(ErrorCode::unsupported, fmt::format("{}: {} at '{}' cannot compile for {}; it knows {}", file_name,
                                                    version(), path(), arch.name, fmt::join(supported_archs(), ", ")));
  const std::string label = fmt::format("{} for {}", file_name, arch.name);
  Program program(state_->api, std::string(source), file_name);
  const NvrtcResult result = program.compile(compile_flags(arch));
  CompiledCubin compiled{.cubin = {}, .resources = {}, .log = program.log()};
  if (result != kNvrtcSuccess)
    refuse(fmt::format("{}: {} says {}: {}", label, version(), state_->api.get_error_string(result),
                       first_diagnostic(compiled.log)),
           source, compiled.log);
  compiled.cubin = program.cubin();
  compiled.resources = checked_resources(compiled, label, source, entries);
  return compiled;
}

}  // namespace moegen::cuda
