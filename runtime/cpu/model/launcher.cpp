// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/launcher.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "cpu/check/checker.hpp"
#include "cpu/model/fault.hpp"
#include "cpu/model/launch.hpp"
#include "cpu/model/limits.hpp"
#include "cpu/model/stacks.hpp"

namespace moegen::cpu {
namespace {

/// Cohorts that chaos runs interleaved, within so many threads.
constexpr std::uint64_t kChaosCohorts = 4, kChaosThreads = 8192;

CpuReport misuse(const LaunchRequest& request, std::string_view why) {
  return {.finding = CpuFinding::misuse,
          .what = fmt::format("launch of '{}': {}", request.label.empty() ? request.entry : request.label, why),
          .parties = {},
          .repeats = 0};
}

LaunchOutcome refused(const LaunchRequest& request, std::string_view why) {
  LaunchOutcome outcome;
  outcome.reports.push_back(misuse(request, why));
  return outcome;
}

std::size_t threads_of(const BlockShape& shape) { return std::size_t{shape.num_blocks} * shape.num_threads; }

/// Cohorts that one host thread runs at a time.
std::uint64_t wave_size(const Launch& launch) {
  if (launch.request.options.schedule != Schedule::chaos) return 1;
  const std::uint64_t fit = std::max<std::uint64_t>(kChaosThreads / threads_of(launch.shape), 1);
  return std::min({kChaosCohorts, fit, launch.num_cohorts});
}

unsigned count_workers(const LaunchRequest& request, unsigned host_threads) {
  if (request.options.check || request.cooperative || request.options.schedule == Schedule::chaos) return 1;
  const std::uint64_t cohorts = request.num_blocks() / request.cluster;
  const unsigned wanted = host_threads != 0 ? host_threads : std::max(std::thread::hardware_concurrency(), 1u);
  return static_cast<unsigned>(std::min<std::uint64_t>(wanted, cohorts));
}

/// The order in which cohorts start: as they are numbered, or any in chaos.
class CohortOrder {
 public:
  explicit CohortOrder(const Launch& launch) {
    const CpuOptions& options = launch.request.options;
    if (options.schedule != Schedule::chaos) return;
    order_.resize(launch.num_cohorts);
    std::iota(order_.begin(), order_.end(), 0u);
    std::uint64_t state = options.seed;
    for (std::size_t left = order_.size(); left > 1; --left) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(order_[left - 1], order_[(state >> 33) % left]);
    }
  }
  std::uint64_t operator[](std::uint64_t place) const { return order_.empty() ? place : order_[place]; }

 private:
  std::vector<std::uint32_t> order_;
};

/// The seed of the wave that starts with cohort `place`.
std::uint64_t wave_seed(const CpuOptions& options, std::uint64_t place) {
  return (options.seed + 1) * 0xD1342543DE82EF95u ^ (place + 1) * 0x9E3779B97F4A7C15u;
}

/// One host thread's part of a launch.
void work(Launch& launch, const CohortOrder& order, Stacks stacks, Checker* checker) {
  const SignalStack signal_stack;
  Scheduler scheduler(launch, checker, std::move(stacks));
  std::vector<std::unique_ptr<Cohort>> cohorts(wave_size(launch));
  for (auto& cohort : cohorts) cohort = std::make_unique<Cohort>(launch.shape);
  for (;;) {
    const std::uint64_t first = launch.next_cohort.fetch_add(cohorts.size());
    if (first >= launch.num_cohorts || launch.abandoned) return;
    std::vector<Cohort*> wave;
    for (std::uint64_t i = first; i < std::min<std::uint64_t>(first + cohorts.size(), launch.num_cohorts); ++i) {
      wave.push_back(cohorts[i - first].get());
      wave.back()->reset(order[i] * launch.shape.num_blocks);
    }
    if (!scheduler.run(wave, wave_seed(launch.request.options, first))) return;
  }
}

/// Stacks for each worker; as many workers as there are stacks for.
std::vector<Stacks> take_stacks(unsigned workers, std::size_t each) {
  std::vector<Stacks> taken;
  for (unsigned i = 0; i < workers; ++i) {
    Stacks stacks = StackPool::process().take(each);
    if (stacks.all().empty()) break;
    taken.push_back(std::move(stacks));
  }
  return taken;
}

void guarded_work(Launch& launch, const CohortOrder& order, Stacks stacks, Checker* checker) noexcept {
  try {
    work(launch, order, std::move(stacks), checker);
  } catch (const std::exception& error) {
    launch.give_up(error);
  }
  launch.workers.leave();
}

void run_workers(Launch& launch, std::vector<Stacks> stacks, Checker* checker) {
  const CohortOrder order(launch);
  const FaultHandlers handlers;
  std::vector<std::jthread> others;
  others.reserve(stacks.size());
  for (std::size_t i = 1; i < stacks.size(); ++i) {
    try {
      others.emplace_back([&launch, &order, own = std::move(stacks[i])]() mutable {
        guarded_work(launch, order, std::move(own), nullptr);
      });
    } catch (const std::exception&) {
      launch.workers.leave();  // a limit on threads, or on memory: fewer of them do the work
    }
  }
  guarded_work(launch, order, std::move(stacks[0]), checker);
}

LaunchOutcome run_launch(const LaunchRequest& request, const MakeChecker& make_checker, unsigned host_threads) {
  const auto& program = static_cast<const HostProgram&>(*request.program);
  const HostProgram::Entry* const entry = program.find(request.entry);
  if (entry == nullptr) return refused(request, fmt::format("the program has no entry '{}'", request.entry));
  if (const std::string why = refusal(request, *entry); !why.empty()) return refused(request, why);
  const Launch alone(request, program, *entry, 1);
  const std::size_t threads = threads_of(alone.shape) * wave_size(alone);
  auto stacks = take_stacks(count_workers(request, host_threads), threads);
  if (stacks.empty()) {
    return refused(request, fmt::format("no memory for the stacks of {} threads that run together", threads));
  }
  Launch launch(request, program, *entry, static_cast<unsigned>(stacks.size()));
  const std::unique_ptr<Checker> checker = request.options.check ? make_checker(request) : nullptr;
  run_workers(launch, std::move(stacks), checker.get());
  LaunchOutcome outcome{launch.reports.take()};
  if (const std::string why = launch.why_given_up(); !why.empty()) outcome.reports.push_back(misuse(request, why));
  return outcome;
}

}  // namespace

LaunchOutcome launch(const LaunchRequest& request, const MakeChecker& make_checker, unsigned host_threads) noexcept {
  try {
    return run_launch(request, make_checker, host_threads);
  } catch (const std::exception& error) {
    return refused(request, describe_exception(error));
  }
}

}  // namespace moegen::cpu
