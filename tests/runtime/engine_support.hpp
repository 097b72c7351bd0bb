// SPDX-License-Identifier: Apache-2.0
// What the tests of Engine share: a config, scratch folders, options that log into a list, and arguments to launch.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include <moegen/args/create_indices.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include <doctest/doctest.h>

#include "fakes/fake_cuda.hpp"
#include "fakes/fake_nvrtc.hpp"

namespace moegen::test {

/// Padded, so that create_indices is one text.
inline Config small_config() {
  return Config::from_json(R"({"moegen": 1, "name": "unit", "hidden": 2048, "intermediate": 768, "num_experts": 128,
                              "top_k": 8, "router": {"scoring": "softmax"}, "indices": {"pad_rows_to": 16}})");
}

inline Plan small_plan(const char* kernel = "create_indices", const char* arch = "sm_90a") {
  return make_plan(small_config(), kernel, find_arch(arch));
}

/// A new folder that goes away with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "moegen_engine_XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no scratch folder");
    path_ = pattern;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Lines that an Engine logged; thread-safe.
class Log {
 public:
  void add(LogLevel level, const std::string& message) {
    const std::lock_guard lock(mutex_);
    lines_.push_back((level == LogLevel::warning ? "warning: " : "") + message);
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Fresh fakes, an empty cache folder and a log; nothing of the environment.
struct EngineFixture {
  EngineFixture() {
    fake::reset();
    fake::reset_nvrtc();
    fake::cuda().args_bytes = sizeof(create_indices::Args);
  }

  EngineOptions options() {
    EngineOptions result;
    result.cache_dir = folder.path() / "cache";
    result.log = [this](LogLevel level, const std::string& message) { log.add(level, message); };
    return result;
  }
  EngineOptions strict_options() {
    EngineOptions result = options();
    result.jit = false;
    return result;
  }

  ScratchFolder folder;
  Log log;
};

/// Arguments that pass the family's checks; the fake driver reads none of what they point to.
inline create_indices::Args some_args(std::int64_t num_pairs = 64) {
  alignas(16) static std::uint32_t memory[16];
  create_indices::Args args{};
  args.topk_ids = memory;
  args.token_expert_order = args.expert_start_indices = args.restore_token_order = args.expert_usage_stats = memory;
  args.expert_ids = reinterpret_cast<std::int32_t*>(memory);
  args.workspace = memory;
  args.num_pairs = num_pairs;
  return args;
}

/// True where times mean something: an optimised build without sanitizers.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
inline constexpr bool kTimed = true;
#else
inline constexpr bool kTimed = false;
#endif

/// What `work` throws, which must be an Error of `code`.
template <class Work>
std::string refusal(ErrorCode code, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace moegen::test
