// SPDX-License-Identifier: Apache-2.0
#include "fakes/fake_nvrtc.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#ifndef FAKE_NVRTC_MAJOR
#define FAKE_NVRTC_MAJOR 98  // no real NVRTC has this version
#define FAKE_NVRTC_MINOR 7
#endif

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
#define FAKE_API extern "C" __attribute__((visibility("default")))

struct _nvrtcProgram {
  std::string source, name, log, cubin;
};

namespace moegen::fake {
namespace {

constexpr std::array<int, 7> kArchs = {80, 86, 89, 90, 100, 103, 120};

struct State {
  Nvrtc nvrtc;
  std::mutex mutex;
  std::atomic<int> compiles{0};
};

State& state() {
  static State instance;
  return instance;
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// Names that start with moegen_ and stand before a parenthesis: what moegen calls its entry points.
std::vector<std::string> entries_of(std::string_view source) {
  std::vector<std::string> entries;
  for (std::size_t at = source.find("moegen_"); at != std::string_view::npos; at = source.find("moegen_", at + 1)) {
    if (at > 0 && is_word(source[at - 1])) continue;
    std::size_t end = at;
    while (end < source.size() && is_word(source[end])) ++end;
    const std::string name(source.substr(at, end - at));
    if (end < source.size() && source[end] == '(' && std::ranges::find(entries, name) == entries.end())
      entries.push_back(name);
  }
  return entries;
}

std::string report_of(const std::string& entry, bool spills) {
  return "ptxas info    : Compiling entry function '" + entry + "' for 'sm_00'\n" +
         (spills ? "    64 bytes stack frame, 24 bytes spill stores, 16 bytes spill loads\n"
                 : "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n") +
         "ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem\n";
}

void build(_nvrtcProgram& program, const Nvrtc& wanted) {
  program.cubin =
      "\x7f"
      "ELF";
  for (const std::string& entry : entries_of(program.source)) {
    if (entry != wanted.missing_entry) (program.cubin += ".text." + entry).push_back('\0');
    if (entry != wanted.unreported_entry) program.log += report_of(entry, entry == wanted.spilling_entry);
  }
  if (wanted.empty_cubin) program.cubin.clear();
}

int copy_out(const std::string& from, char* to) {
  std::copy(from.begin(), from.end(), to);
  return 0;
}

}  // namespace

Nvrtc& nvrtc() { return state().nvrtc; }

void reset_nvrtc() {
  state().nvrtc = Nvrtc{};
  state().compiles = 0;
}

int num_compiles() { return state().compiles; }

}  // namespace moegen::fake

using namespace moegen::fake;

FAKE_API const char* nvrtcGetErrorString(int result) {
  return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR unknown";
}
FAKE_API int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_NVRTC_MAJOR;
  *minor = FAKE_NVRTC_MINOR;
  return 0;
}
FAKE_API int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(kArchs.size());
  return 0;
}
FAKE_API int nvrtcGetSupportedArchs(int* archs) {
  std::ranges::copy(kArchs, archs);
  return 0;
}
FAKE_API int nvrtcCreateProgram(_nvrtcProgram** program, const char* source, const char* name, int, const char* const*,
                                const char* const*) {
  *program = new _nvrtcProgram{source, name, "", ""};
  return 0;
}
FAKE_API int nvrtcDestroyProgram(_nvrtcProgram** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
FAKE_API int nvrtcCompileProgram(_nvrtcProgram* program, int num_options, const char* const* options) {
  const std::lock_guard lock(state().mutex);
  Nvrtc& wanted = state().nvrtc;
  wanted.last_options.clear();
  for (int i = 0; i < num_options; ++i) wanted.last_options.append(i ? " " : "").append(options[i]);
  wanted.last_name = program->name;
  ++state().compiles;
  std::this_thread::sleep_for(std::chrono::milliseconds(wanted.milliseconds));
  program->log = wanted.failure;
  if (!wanted.failure.empty()) return 6;
  build(*program, wanted);
  return 0;
}
FAKE_API int nvrtcGetProgramLogSize(_nvrtcProgram* program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return 0;
}
FAKE_API int nvrtcGetProgramLog(_nvrtcProgram* program, char* log) {
  log[program->log.size()] = '\0';
  return copy_out(program->log, log);
}
FAKE_API int nvrtcGetCUBINSize(_nvrtcProgram* program, std::size_t* bytes) {
  *bytes = program->cubin.size();
  return 0;
}
FAKE_API int nvrtcGetCUBIN(_nvrtcProgram* program, char* cubin) { return copy_out(program->cubin, cubin); }
// NOLINTEND(readability-identifier-naming)
