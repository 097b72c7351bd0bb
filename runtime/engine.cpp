// SPDX-License-Identifier: Apache-2.0
// Engine: the slow way to a kernel (plan, build, load, prepare) once, and the table that makes the next time short.
#include <moegen/engine.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <ranges>
#include <tuple>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <moegen/arch.hpp>
#include <moegen/error.hpp>
#include <moegen/family.hpp>

#include "builder.hpp"
#include "cuda/device.hpp"
#include "kernel_state.hpp"
#include "kernel_table.hpp"
#include "logger.hpp"

namespace moegen {
namespace {

/// Archs whose cubins run on `device`, the best one first.
std::vector<const Arch*> archs_for(const cuda::DeviceInfo& device) {
  std::vector<const Arch*> archs;
  for (const Arch& arch : all_archs() | std::views::reverse)
    if (runs_on(arch, device.major, device.minor)) archs.push_back(&arch);
  if (!archs.empty()) return archs;
  std::vector<std::string_view> names;
  for (const Arch& arch : all_archs()) names.push_back(arch.name);
  throw Error(ErrorCode::unsupported, fmt::format("{}: moegen compiles for no arch that runs on it; it has {}",
                                                  device.label(), fmt::join(names, ", ")));
}

const Family& family_of(const Plan& plan) {
  if (const Family* family = find_family(plan.family)) return *family;
  throw Error(ErrorCode::internal, fmt::format("{}: the plan names no family ('{}')", label_of(plan), plan.family));
}

/// The config's file if it came from one; messages put it into commands.
std::string file_of(const Config& config) {
  std::error_code error;
  return std::filesystem::is_regular_file(config.origin(), error) ? config.origin() : "";
}

}  // namespace

struct Engine::State {
  /// One load serves every device of an arch, so loaded kernels are found by the arch that the device would like best.
  using LoadedName = std::tuple<std::uint64_t, std::string, std::string_view>;

  explicit State(EngineOptions wanted)
      : options(std::move(wanted)), log(options.log_level, options.log), builder(options, log) {}

  std::shared_ptr<const Kernel::State> make_ready(const Config& config, std::string_view name, int ordinal);
  std::shared_ptr<Kernel::State> kernel_on(const cuda::DeviceInfo& device, const Config& config, std::string_view name);
  std::shared_ptr<Kernel::State> find_loaded(const LoadedName& key);
  std::pair<Plan, cache::Found> build_for(const cuda::DeviceInfo& device, const Config& config, std::string_view name);
  std::shared_ptr<Kernel::State> load(Plan plan, const cache::Entry& entry) const;

  const EngineOptions options;
  const Logger log;
  Builder builder;
  KernelTable ready;
  std::mutex load_mutex;  ///< over loading and preparing, never over a compile
  std::map<LoadedName, std::shared_ptr<Kernel::State>> loaded;
};

// Where nothing can be compiled, a cubin of a lesser arch that runs on the device is better than none.
std::pair<Plan, cache::Found> Engine::State::build_for(const cuda::DeviceInfo& device, const Config& config,
                                                       std::string_view name) {
  const std::vector<const Arch*> archs = archs_for(device);
  Plan best = make_plan(config, name, *archs.front());
  if (auto found = builder.find(best)) return {std::move(best), std::move(*found)};
  if (!builder.can_compile()) {
    for (const Arch* arch : archs | std::views::drop(1)) {
      Plan plan = make_plan(config, name, *arch);
      if (auto found = builder.find(plan)) return {std::move(plan), std::move(*found)};
    }
  }
  cache::Found built = builder.build(best, file_of(config));
  return {std::move(best), std::move(built)};
}

std::shared_ptr<Kernel::State> Engine::State::load(Plan plan, const cache::Entry& entry) const {
  const Family& family = family_of(plan);
  std::string label = label_of(plan);
  auto module = cuda::Module::load({entry.payload, entry.compiler, label}, plan);
  return std::make_shared<Kernel::State>(std::move(plan), family, std::move(label), std::move(module));
}

std::shared_ptr<Kernel::State> Engine::State::find_loaded(const LoadedName& key) {
  const std::lock_guard lock(load_mutex);
  const auto found = loaded.find(key);
  return found == loaded.end() ? nullptr : found->second;
}

std::shared_ptr<Kernel::State> Engine::State::kernel_on(const cuda::DeviceInfo& device, const Config& config,
                                                        std::string_view name) {
  const LoadedName key{config.digest(), std::string(name), archs_for(device).front()->name};
  if (auto kernel = find_loaded(key)) return kernel;
  auto [plan, built] = build_for(device, config, name);
  const std::lock_guard lock(load_mutex);
  if (const auto found = loaded.find(key); found != loaded.end()) return found->second;  // another thread was faster
  return loaded.emplace(key, load(std::move(plan), *built.entry)).first->second;
}

std::shared_ptr<const Kernel::State> Engine::State::make_ready(const Config& config, std::string_view name,
                                                               int ordinal) {
  const cuda::DeviceInfo device = cuda::device_info(ordinal);
  const auto kernel = kernel_on(device, config, name);
  {
    const std::lock_guard lock(load_mutex);
    kernel->prepare(device);
  }
  ready.insert(config.digest(), name, ordinal, kernel);
  log(LogLevel::debug, fmt::format("{}: ready on {}", kernel->label, device.label()));
  return kernel;
}

Engine::Engine(EngineOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Kernel Engine::get(const Config& config, std::string_view name) {
  const int ordinal = cuda::current_device();
  if (auto kernel = state_->ready.find(config.digest(), name, ordinal)) return Kernel(std::move(kernel));
  return Kernel(state_->make_ready(config, name, ordinal));
}

BuildReport Engine::build(const Plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  const cache::Found built = state_->builder.build(plan);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  BuildReport report;
  report.kernel = plan.kernel;
  report.arch = plan.arch.name;
  report.status = built.status;
  report.milliseconds = took.count();
  report.cubin_bytes = built.entry->payload.size();
  report.resources = built.entry->resources;
  report.key = built.entry->key;
  return report;
}

std::string Engine::cubin(const Plan& plan) { return state_->builder.build(plan).entry->payload; }

std::shared_ptr<const cache::Entry> Engine::entry(const Plan& plan) { return state_->builder.build(plan).entry; }

const EngineOptions& Engine::options() const noexcept { return state_->options; }

}  // namespace moegen
