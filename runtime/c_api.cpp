// SPDX-License-Identifier: Apache-2.0
// The C interface: argument checks, exceptions to status codes, and the words of the last failure of each thread.
#include <moegen/moegen.h>

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

#include <moegen/args/activation.h>
#include <moegen/args/create_indices.h>
#include <moegen/args/finalize.h>
#include <moegen/args/grouped_matmul.h>
#include <moegen/args/permute.h>
#include <moegen/args/quantize.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "kernel_state.hpp"

struct moegen_engine {
  moegen::Engine engine;
};

struct moegen_kernel {
  moegen::Kernel kernel;
};

namespace {

using moegen::EngineOptions;
using moegen::Error;
using moegen::ErrorCode;

// One layout seen from two languages.
using IndicesArgs = moegen::create_indices::Args;
using FinalizeArgs = moegen::finalize::Args;
using MatmulArgs = moegen::grouped_matmul::Args;
static_assert(sizeof(moegen_create_indices_args) == sizeof(IndicesArgs));
static_assert(offsetof(moegen_create_indices_args, restore_token_order) == offsetof(IndicesArgs, restore_token_order));
static_assert(offsetof(moegen_create_indices_args, workspace) == offsetof(IndicesArgs, workspace));
static_assert(offsetof(moegen_create_indices_args, num_pairs) == offsetof(IndicesArgs, num_pairs));
using PermuteArgs = moegen::permute::Args;
using ActivationArgs = moegen::activation::Args;
using QuantizeArgs = moegen::quantize::Args;
static_assert(sizeof(moegen_permute_args) == sizeof(PermuteArgs));
static_assert(offsetof(moegen_permute_args, restore) == offsetof(PermuteArgs, restore));
static_assert(offsetof(moegen_permute_args, global_scale) == offsetof(PermuteArgs, global_scale));
static_assert(offsetof(moegen_permute_args, scales_stride) == offsetof(PermuteArgs, scales_stride));
static_assert(sizeof(moegen_activation_args) == sizeof(ActivationArgs));
static_assert(MOEGEN_ACTIVATION_MAX_INPUTS == moegen::activation::kMaxInputs);
static_assert(offsetof(moegen_activation_args, row_count) == offsetof(ActivationArgs, row_count));
static_assert(offsetof(moegen_activation_args, inputs) == offsetof(ActivationArgs, inputs));
static_assert(offsetof(moegen_activation_args, scales_stride) == offsetof(ActivationArgs, scales_stride));
static_assert(sizeof(moegen_quantize_args) == sizeof(QuantizeArgs));
static_assert(offsetof(moegen_quantize_args, row_count) == offsetof(QuantizeArgs, row_count));
static_assert(offsetof(moegen_quantize_args, scales_stride) == offsetof(QuantizeArgs, scales_stride));
static_assert(sizeof(moegen_finalize_args) == sizeof(FinalizeArgs));
static_assert(MOEGEN_FINALIZE_MAX_INPUTS == moegen::finalize::kMaxInputs);
static_assert(offsetof(moegen_finalize_args, weights) == offsetof(FinalizeArgs, weights));
static_assert(offsetof(moegen_finalize_args, bias) == offsetof(FinalizeArgs, bias));
static_assert(offsetof(moegen_finalize_args, inputs) == offsetof(FinalizeArgs, inputs));
static_assert(offsetof(moegen_finalize_args, num_tokens) == offsetof(FinalizeArgs, num_tokens));
static_assert(sizeof(moegen_grouped_matmul_args) == sizeof(MatmulArgs));
static_assert(MOEGEN_GROUPED_MATMUL_MAX_INPUTS == moegen::grouped_matmul::kMaxInputs);
static_assert(offsetof(moegen_grouped_matmul_args, b_scales) == offsetof(MatmulArgs, b_scales));
static_assert(offsetof(moegen_grouped_matmul_args, order) == offsetof(MatmulArgs, order));
static_assert(offsetof(moegen_grouped_matmul_args, num_rows) == offsetof(MatmulArgs, num_rows));
static_assert(offsetof(moegen_grouped_matmul_args, num_active_experts) == offsetof(MatmulArgs, num_active_experts));

constexpr int status_of(ErrorCode code) { return static_cast<int>(code) + 1; }
static_assert(status_of(ErrorCode::config) == MOEGEN_ERROR_CONFIG);
static_assert(status_of(ErrorCode::unsupported) == MOEGEN_ERROR_UNSUPPORTED);
static_assert(status_of(ErrorCode::compile) == MOEGEN_ERROR_COMPILE);
static_assert(status_of(ErrorCode::cache) == MOEGEN_ERROR_CACHE);
static_assert(status_of(ErrorCode::driver) == MOEGEN_ERROR_DRIVER);
static_assert(status_of(ErrorCode::internal) == MOEGEN_ERROR_INTERNAL);
static_assert(status_of(ErrorCode::kernel) == MOEGEN_ERROR_KERNEL);

/// The last failure of one thread. `message` points into `text`, or to a literal when there was no memory for it.
struct Failure {
  std::string text, log;
  const char* message = "";
};

Failure& last_failure() noexcept {
  thread_local Failure failure;
  return failure;
}

int remember(int status, const char* message, std::string_view log = {}) noexcept {
  Failure& failure = last_failure();
  try {
    failure.text = message;
    failure.log = log;
    failure.message = failure.text.c_str();
  } catch (...) {
    failure.log.clear();
    failure.message = "out of host memory";
  }
  return status;
}

/// Runs `work`, which throws on failure, and turns what it throws into a status.
template <class Work>
int guarded(Work&& work) noexcept {
  try {
    work();
    return MOEGEN_OK;
  } catch (const moegen::CompileError& error) {
    return remember(status_of(error.code()), error.what(), error.log());
  } catch (const moegen::KernelError& error) {
    return remember(status_of(error.code()), error.what(), error.text());
  } catch (const Error& error) {
    return remember(status_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return remember(MOEGEN_ERROR_INTERNAL, "out of host memory");
  } catch (const std::exception& error) {
    return remember(MOEGEN_ERROR_INTERNAL, error.what());
  } catch (...) {
    return remember(MOEGEN_ERROR_INTERNAL, "an exception of unknown type");
  }
}

template <class T>
void require(const T* pointer, const char* function, const char* argument) {
  if (!pointer) throw Error(ErrorCode::config, fmt::format("{}: '{}' is null", function, argument));
}

/// The caller's struct, as far as its header knew it; the rest is zero.
moegen_options read_options(const moegen_options& given) {
  constexpr std::size_t kFirstVersion = offsetof(moegen_options, target);
  if (given.struct_size < kFirstVersion)
    throw Error(ErrorCode::config, fmt::format("moegen_engine_create: options.struct_size is {}; allowed {} or more",
                                               given.struct_size, kFirstVersion));
  moegen_options options{};
  std::memcpy(&options, &given, std::min(given.struct_size, sizeof options));
  return options;
}

[[noreturn]] void refuse_option(const char* field, int value, const char* allowed) {
  throw Error(ErrorCode::config,
              fmt::format("moegen_engine_create: options.{} is {}; allowed {}", field, value, allowed));
}

void set_jit(EngineOptions& options, int wanted) {
  if (wanted < MOEGEN_DEFAULT || wanted > MOEGEN_OFF) refuse_option("jit", wanted, "0 (default), 1 (on), 2 (off)");
  if (wanted != MOEGEN_DEFAULT) options.jit = wanted == MOEGEN_ON;
}

int to_c(moegen::LogLevel level) noexcept { return static_cast<int>(level) + 1; }
static_assert(static_cast<int>(moegen::LogLevel::off) + 1 == MOEGEN_LOG_OFF);
static_assert(static_cast<int>(moegen::LogLevel::debug) + 1 == MOEGEN_LOG_DEBUG);

void set_log(EngineOptions& options, const moegen_options& given) {
  if (given.log_level < MOEGEN_LOG_DEFAULT || given.log_level > MOEGEN_LOG_DEBUG)
    refuse_option("log_level", given.log_level, "0 (default), 1 (off), 2 (warning), 3 (info), 4 (debug)");
  if (given.log_level != MOEGEN_LOG_DEFAULT) options.log_level = static_cast<moegen::LogLevel>(given.log_level - 1);
  if (!given.log) return;
  options.log = [log = given.log, user = given.log_user](moegen::LogLevel level, const std::string& message) {
    log(user, to_c(level), message.c_str());
  };
}

void set_target(EngineOptions& options, const moegen_options& given) {
  if (given.target < MOEGEN_TARGET_DEFAULT || given.target > MOEGEN_TARGET_CPU)
    refuse_option("target", given.target, "0 (default), 1 (cuda), 2 (cpu)");
  if (given.cpu_check < MOEGEN_DEFAULT || given.cpu_check > MOEGEN_OFF)
    refuse_option("cpu_check", given.cpu_check, "0 (default), 1 (on), 2 (off)");
  const bool has_cpu_option = given.cpu_check == MOEGEN_ON || given.cpu_arch || given.cpu_schedule_seed != 0;
  if (given.target != MOEGEN_TARGET_CPU && has_cpu_option)
    throw Error(ErrorCode::config,
                "moegen_engine_create: options.cpu_check, cpu_schedule_seed or cpu_arch is set; "
                "allowed with options.target 2 (cpu)");
  if (given.target == MOEGEN_TARGET_CPU) options.target = moegen::Target::cpu;
  options.cpu.check = given.cpu_check == MOEGEN_ON;
  if (given.cpu_arch) options.cpu.arch = given.cpu_arch;
  if (given.cpu_schedule_seed == 0) return;
  options.cpu.schedule = moegen::Schedule::chaos;
  options.cpu.async_timing = moegen::AsyncTiming::random;
  options.cpu.seed = given.cpu_schedule_seed;
}

void set_packs(EngineOptions& options, const moegen_options& given) {
  if (given.num_packs == 0) return;
  require(given.packs, "moegen_engine_create", "options.packs");
  options.packs.clear();
  for (std::size_t i = 0; i < given.num_packs; ++i) {
    require(given.packs[i], "moegen_engine_create", "options.packs[i]");
    options.packs.emplace_back(given.packs[i]);
  }
}

EngineOptions engine_options(const moegen_options* given) {
  EngineOptions options = EngineOptions::from_environment();
  if (!given) return options;
  const moegen_options wanted = read_options(*given);
  if (wanted.cache_dir) options.cache_dir = wanted.cache_dir;
  if (wanted.cache_max_bytes > 0) options.cache_max_bytes = wanted.cache_max_bytes;
  if (wanted.template_dir) options.template_dir = wanted.template_dir;
  set_packs(options, wanted);
  set_jit(options, wanted.jit);
  set_log(options, wanted);
  set_target(options, wanted);
  return options;
}

}  // namespace

int moegen_abi_version(void) { return MOEGEN_ABI_VERSION; }

const char* moegen_version(void) { return MOEGEN_VERSION; }

const char* moegen_last_error(void) { return last_failure().message; }

const char* moegen_last_log(void) { return last_failure().log.c_str(); }

int moegen_engine_create(const moegen_options* options, moegen_engine** engine) {
  return guarded([&] {
    require(engine, "moegen_engine_create", "engine");
    *engine = nullptr;
    *engine = new moegen_engine{moegen::Engine(engine_options(options))};
  });
}

void moegen_engine_destroy(moegen_engine* engine) { delete engine; }

int moegen_engine_get(moegen_engine* engine, const char* config_json, const char* kernel, moegen_kernel** result) {
  return guarded([&] {
    require(result, "moegen_engine_get", "result");
    *result = nullptr;
    require(engine, "moegen_engine_get", "engine");
    require(config_json, "moegen_engine_get", "config_json");
    require(kernel, "moegen_engine_get", "kernel");
    const auto config = moegen::Config::from_json(config_json, "config_json");
    *result = new moegen_kernel{engine->engine.get(config, kernel)};
  });
}

void moegen_kernel_release(moegen_kernel* kernel) { delete kernel; }

int moegen_kernel_run(const moegen_kernel* kernel, const void* args, size_t args_bytes, CUstream_st* stream) {
  return guarded([&] {
    require(kernel, "moegen_kernel_run", "kernel");
    kernel->kernel.run(args, args_bytes, kernel->kernel.state().family.tag, stream);
  });
}

int moegen_cpu_register(const void* data, size_t bytes, const char* name) {
  return guarded([&] {
    require(data, "moegen_cpu_register", "data");
    require(name, "moegen_cpu_register", "name");
    moegen::register_cpu_memory(data, bytes, name);
  });
}

int moegen_cpu_unregister(const void* data) {
  return guarded([&] {
    require(data, "moegen_cpu_unregister", "data");
    moegen::unregister_cpu_memory(data);
  });
}

int moegen_kernel_workspace_bytes(const moegen_kernel* kernel, const void* args, size_t args_bytes, size_t* bytes) {
  return guarded([&] {
    require(kernel, "moegen_kernel_workspace_bytes", "kernel");
    require(bytes, "moegen_kernel_workspace_bytes", "bytes");
    *bytes = kernel->kernel.workspace_bytes(args, args_bytes);
  });
}
