// SPDX-License-Identifier: Apache-2.0
// Engine: the slow way to a kernel (plan, build, load, prepare) once, and the table that makes the next time short.
#include <moegen/engine.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include "builder.hpp"
#include "kernel_state.hpp"
#include "kernel_table.hpp"
#include "logger.hpp"
#include "provider.hpp"

namespace moegen {

struct Engine::State {
  explicit State(EngineOptions wanted)
      : options(std::move(wanted)),
        log(options.log_level, options.log),
        builder(options, log),
        provider(make_provider(options, builder, log)) {}

  const EngineOptions options;
  const Logger log;
  Builder builder;
  std::unique_ptr<KernelProvider> provider;
  KernelTable ready;
};

Engine::Engine(EngineOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Kernel Engine::get(const Config& config, std::string_view name) {
  const int device = state_->provider->current_device();
  if (auto kernel = state_->ready.find(config.digest(), name, device)) return Kernel(std::move(kernel));
  auto kernel = state_->provider->make_ready(config, name, device);
  state_->ready.insert(config.digest(), name, device, kernel);
  return Kernel(std::move(kernel));
}

BuildReport Engine::build(const Plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  const Parts parts = state_->builder.build(plan);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  BuildReport report;
  report.kernel = plan.kernel;
  report.arch = plan.arch.name;
  report.target = to_string(state_->builder.target());
  report.milliseconds = took.count();
  report.status = parts.front().status;
  for (const auto& [entry, status] : parts) {
    report.status = std::min(report.status, status);
    report.cubin_bytes += entry->payload.size();
    report.resources.insert(report.resources.end(), entry->resources.begin(), entry->resources.end());
    report.keys.push_back(entry->key);
  }
  return report;
}

std::vector<Plan> Engine::parts(const Plan& plan) const { return state_->builder.parts(plan); }

std::vector<std::shared_ptr<const cache::Entry>> Engine::entries(const Plan& plan) {
  std::vector<std::shared_ptr<const cache::Entry>> entries;
  for (cache::Found& part : state_->builder.build(plan)) entries.push_back(std::move(part.entry));
  return entries;
}

const EngineOptions& Engine::options() const noexcept { return state_->options; }

}  // namespace moegen
