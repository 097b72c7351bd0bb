// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/deadlock.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "cpu/model/block.hpp"
#include "cpu/model/launch.hpp"

namespace moegen::cpu {
namespace {

/// Parties of one report; what more blocks wait for is the same again.
constexpr std::size_t kMostParties = 64;

/// Threads of a block that wait alike.
struct Group {
  const Thread* first = nullptr;
  std::vector<std::uint32_t> indices;
};

bool alike(const Thread& a, const Thread& b) {
  if (a.wait.operation == nullptr || b.wait.operation == nullptr) {
    return a.wait.operation == b.wait.operation && a.site == b.site;
  }
  return std::strcmp(a.wait.operation, b.wait.operation) == 0 && a.wait.object == b.wait.object &&
         a.wait.detail == b.wait.detail && a.wait.site == b.wait.site;
}

/// Waits of a warp are of that warp alone.
bool same_group(const Thread& a, const Thread& b) {
  const bool of_warp = a.wait.operation != nullptr && std::strncmp(a.wait.operation, "warp", 4) == 0;
  return alike(a, b) && (!of_warp || a.warp() == b.warp());
}

std::vector<Group> groups_of(const Block& block) {
  std::vector<Group> groups;
  for (const Thread* thread : block.threads) {
    if (thread->ended) continue;
    const auto known =
        std::ranges::find_if(groups, [&](const Group& group) { return same_group(*group.first, *thread); });
    Group& group = known != groups.end() ? *known : groups.emplace_back(Group{thread, {}});
    group.indices.push_back(thread->index);
  }
  return groups;
}

std::string action_of(const Group& group) {
  const Thread& thread = *group.first;
  std::string text = "asks again and again";
  if (thread.wait.operation != nullptr) {
    text = fmt::format("waits for {}",
                       thread.wait.describe != nullptr ? thread.wait.describe(thread) : thread.wait.operation);
  }
  if (group.indices.size() > 1) {
    text += fmt::format("; so {} {}", group.indices.size() == 2 ? "does thread" : "do threads",
                        ranges(std::span(group.indices).subspan(1)));
  }
  return text;
}

bool waits_at(const Thread& thread, std::string_view operation) {
  return thread.wait.operation != nullptr && operation == thread.wait.operation;
}

/// Whether `thread` waits in a warp-wide operation for lanes that wait at a barrier, which cannot be reached by all.
bool is_divergence(const Thread& thread) {
  if (!waits_at(thread, "warp exchange") && !waits_at(thread, "warp sync")) return false;
  const Block& block = *thread.block;
  const WarpExchange& warp = block.warps[thread.warp()];
  const std::uint32_t missing =
      static_cast<std::uint32_t>(thread.wait.object) & warp.existing & ~warp.ended & ~warp.arrived;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if ((missing >> lane & 1) == 0) continue;
    const Thread& other = *block.threads[thread.warp() * 32 + lane];
    if (!waits_at(other, "bar.sync") && !waits_at(other, "barrier.cluster.wait")) return false;
  }
  return true;
}

struct Count {
  std::size_t waiting = 0, ended = 0;
  bool waits_for_word = false, diverged = false;
};

Count count_threads(const Scheduler& scheduler) {
  Count count;
  for (const Cohort* cohort : scheduler.cohorts()) {
    for (const auto& block : cohort->blocks) {
      for (const Thread* thread : block->threads) {
        ++(thread->ended ? count.ended : count.waiting);
        if (thread->ended) continue;
        count.waits_for_word |= waits_at(*thread, "a word");
        count.diverged |= is_divergence(*thread);
      }
    }
  }
  return count;
}

std::string what_of(const Scheduler& scheduler, const Count& count) {
  std::string text = fmt::format("no thread can run: {} of {} {}", count.waiting, count.waiting + count.ended,
                                 count.waiting == 1 ? "waits" : "wait");
  if (count.ended != 0) text += fmt::format(", {} {} ended", count.ended, count.ended == 1 ? "has" : "have");
  const Launch& launch = scheduler.launch();
  if (count.waits_for_word && launch.num_cohorts > scheduler.cohorts().size()) {
    text += fmt::format(
        "; the grid has {} blocks, which run together only by luck: a block may wait for another only in a cooperative "
        "launch",
        launch.num_blocks());
  }
  return text;
}

void add_parties(const Scheduler& scheduler, const Block& block, CpuReport& report) {
  for (const Group& group : groups_of(block)) {
    const Thread& thread = *group.first;
    const Site site = thread.wait.operation != nullptr ? thread.wait.site : thread.site;
    report.parties.push_back(scheduler.party(thread, action_of(group), site));
  }
}

}  // namespace

CpuReport describe_deadlock(const Scheduler& scheduler) {
  const Count count = count_threads(scheduler);
  CpuReport report{.finding = count.diverged ? CpuFinding::divergence : CpuFinding::deadlock,
                   .what = what_of(scheduler, count),
                   .parties = {},
                   .repeats = 0};
  std::size_t more = 0;
  for (const Cohort* cohort : scheduler.cohorts()) {
    for (const auto& block : cohort->blocks) {
      if (report.parties.size() < kMostParties) {
        add_parties(scheduler, *block, report);
      } else {
        more += groups_of(*block).size();
      }
    }
  }
  if (more != 0) report.what += fmt::format("; and {} more {}", more, more == 1 ? "group" : "groups");
  return report;
}

std::string ranges(std::span<const std::uint32_t> numbers) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = last + 1) {
    for (last = first; last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1;) ++last;
    if (!text.empty()) text += ", ";
    text += first == last ? fmt::format("{}", numbers[first]) : fmt::format("{}..{}", numbers[first], numbers[last]);
  }
  return text;
}

}  // namespace moegen::cpu
