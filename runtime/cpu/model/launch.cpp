// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/launch.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "cpu/model/word.hpp"

namespace moegen::cpu {
namespace {

/// How often a host thread that waits looks whether another has stored plainly to a word that it watches.
constexpr std::chrono::microseconds kLook(100);

bool same_sides(const std::vector<CpuParty>& a, const std::vector<CpuParty>& b) {
  return std::ranges::equal(a, b, [](const CpuParty& left, const CpuParty& right) {
    return left.place == right.place && left.action == right.action;
  });
}

bool any_reached(const Scheduler& scheduler) {
  return std::ranges::any_of(scheduler.watches(),
                             [](const Watch& watch) { return load_word(watch.word, watch.bytes) >= watch.least; });
}

BlockShape shape_of(const LaunchRequest& request, const HostProgram::Entry& entry) {
  BlockShape shape;
  shape.block_dim = {request.block[0], request.block[1], request.block[2]};
  shape.grid_dim = {request.grid[0], request.grid[1], request.grid[2]};
  shape.num_threads = static_cast<std::uint32_t>(request.threads_per_block());
  shape.cluster_size = request.cluster;
  shape.num_blocks = request.cooperative ? static_cast<std::uint32_t>(request.num_blocks()) : request.cluster;
  const std::uint32_t offset = std::max(entry.static_shared_bytes, entry.dynamic_shared_offset);
  shape.shared_bytes =
      request.dynamic_shared_bytes == 0 ? entry.static_shared_bytes : offset + request.dynamic_shared_bytes;
  return shape;
}

/// Empty for a lack of memory.
std::string_view reason_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? std::string_view() : error.what();
}

std::string cannot_go_on(std::string_view reason) {
  return reason.empty() ? "the CPU target is out of memory" : fmt::format("the CPU target cannot go on: {}", reason);
}

}  // namespace

std::string describe_exception(const std::exception& error) { return cannot_go_on(reason_of(error)); }

void Reports::add(CpuReport report, bool is_last) {
  const std::lock_guard lock(mutex_);
  const auto same = std::ranges::find_if(reports_, [&](const CpuReport& known) {
    return known.finding == report.finding && same_sides(known.parties, report.parties);
  });
  if (same != reports_.end()) {
    ++same->repeats;
  } else if (is_last || reports_.size() < most_) {
    reports_.push_back(std::move(report));
  } else {
    ++dropped_;
  }
}

std::vector<CpuReport> Reports::take() {
  const std::lock_guard lock(mutex_);
  if (dropped_ != 0) {
    reports_.back().what +=
        fmt::format("; and {} more {}, which max_reports leaves out", dropped_, dropped_ == 1 ? "finding" : "findings");
  }
  return std::exchange(reports_, {});
}

bool Workers::wait_for_others(Scheduler& scheduler) {
  std::unique_lock lock(mutex_);
  idle_.push_back(&scheduler);
  changed_.notify_all();
  bool goes_on = false;
  // Those that are idle change no word, so once all are, what their words hold is final.
  while (!(goes_on = any_reached(scheduler)) && !all_stuck() && !scheduler.launch().abandoned) {
    changed_.wait_for(lock, kLook);
  }
  std::erase(idle_, &scheduler);
  return goes_on;
}

bool Workers::all_stuck() const {
  return idle_.size() == working_ &&
         std::ranges::none_of(idle_, [](const Scheduler* idle) { return any_reached(*idle); });
}

void Workers::leave() {
  const std::lock_guard lock(mutex_);
  --working_;
  changed_.notify_all();
}

bool Workers::alone() {
  const std::lock_guard lock(mutex_);
  return working_ == 1 + idle_.size();
}

Launch::Launch(const LaunchRequest& launch_request, const HostProgram& host_program,
               const HostProgram::Entry& host_entry, unsigned num_workers)
    : request(launch_request),
      program(host_program),
      entry(host_entry.function),
      shape(shape_of(request, host_entry)),
      num_cohorts(request.num_blocks() / shape.num_blocks),
      reports(request.options.max_reports),
      workers(num_workers) {}

void Launch::give_up(const std::exception& error) noexcept {
  if (!gave_up_.exchange(true)) reason_of(error).copy(reason_.data(), reason_.size() - 1);
  abandoned = true;
}

std::string Launch::why_given_up() const { return gave_up_ ? cannot_go_on(reason_.data()) : std::string(); }

}  // namespace moegen::cpu
