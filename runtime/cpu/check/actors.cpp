// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/actors.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace moegen::cpu {
namespace {

/// Clocks that an object remembers to have merged: blocks of the largest cluster.
constexpr std::size_t kMostMerged = 16;
/// Ended operations that a new one looks at before it gets a number of its own.
constexpr std::size_t kMostLookedAt = 32;
/// Fences between proxies that a thread remembers. Who knows of none of them is taken to know an earlier one.
constexpr std::size_t kMostFences = 64;

}  // namespace

void Timeline::know(ClockRef clock) {
  known = std::move(clock);
  const Row* const row = known ? known->find(block) : nullptr;
  own = row != nullptr ? row->times.data() : nullptr;
  num_own = row != nullptr ? static_cast<std::uint32_t>(row->times.size()) : 0;
}

void Actors::begin_block(std::uint32_t block) {
  if (block >= blocks_.size()) blocks_.resize(block + 1);
  auto& threads = blocks_[block].threads;
  threads.resize(num_threads_);
  for (std::uint32_t i = 0; i < num_threads_; ++i) {
    threads[i].first = block * num_threads_;
    threads[i].now = {threads[i].first + i, 1};
    threads[i].block = block;
    threads[i].index = i;
  }
}

void Actors::end_block(std::uint32_t block) {
  if (!has_block(block)) return;
  for (const std::uint32_t index : std::exchange(blocks_[block].ended, {}))
    operations_[blocks_[block].operations[index]].timeline.know({});
  blocks_[block].threads = {};
}

Timeline& Actors::operation(std::uint32_t block, std::uint32_t index) noexcept {
  return operations_[blocks_[block].operations[index - num_threads_]].timeline;
}

std::uint32_t Actors::block_of(std::uint32_t actor) const noexcept {
  return actor < kFirstOperation ? actor / num_threads_ : operations_[actor - kFirstOperation].timeline.block;
}

bool Actors::ordered_far(const Timeline& timeline, Epoch epoch) const noexcept {
  return known_to(timeline.known, epoch);
}

bool Actors::known_to(const ClockRef& clock, Epoch epoch) const noexcept {
  if (!clock) return false;
  const bool is_thread = epoch.actor < kFirstOperation;
  const std::uint32_t block = block_of(epoch.actor);
  const std::uint32_t index =
      is_thread ? epoch.actor % num_threads_ : operations_[epoch.actor - kFirstOperation].timeline.index;
  return clock->time_of(block, index) >= epoch.time;
}

void Actors::join(std::uint32_t block, std::span<const std::uint32_t> threads) {
  ClockRef all;
  for (const std::uint32_t index : threads) all = clocks_.merge(all, thread(block, index).known);
  std::vector<std::uint32_t>& row = clocks_.row(all, block, num_threads_);
  for (const std::uint32_t index : threads) row[index] = std::max(row[index], thread(block, index).now.time++);
  for (const std::uint32_t index : threads) thread(block, index).know(all);
}

void Actors::merge_known(Object& object, const ClockRef& known) {
  if (!known || std::ranges::find(object.merged, known->serial) != object.merged.end()) return;
  object.clock = clocks_.merge(object.clock, known);
  if (object.merged.size() == kMostMerged) object.merged.erase(object.merged.begin());
  object.merged.push_back(known->serial);
}

void Actors::release(Timeline& timeline, const void* object) {
  Object& to = objects_[object];
  merge_known(to, timeline.known);
  clocks_.add(to.clock, timeline.block, timeline.index, timeline.now.time);
  ++timeline.now.time;
}

void Actors::acquire(Timeline& timeline, const void* object) {
  const auto from = objects_.find(object);
  if (from != objects_.end()) timeline.know(clocks_.merge(timeline.known, from->second.clock));
}

void Actors::forget_range(std::uintptr_t begin, std::uintptr_t end) {
  std::erase_if(objects_, [&](const auto& object) {
    const auto at = reinterpret_cast<std::uintptr_t>(object.first);
    return at >= begin && at < end;
  });
}

ClockRef Actors::present(const Timeline& timeline) {
  ClockRef clock = timeline.known;
  clocks_.add(clock, timeline.block, timeline.index, timeline.now.time);
  return clock;
}

void Actors::fence(Timeline& timeline) {
  if (timeline.loaded) timeline.know(clocks_.merge(timeline.known, std::exchange(timeline.loaded, {})));
  timeline.fenced = present(timeline);
  ++timeline.now.time;
}

void Actors::fence_proxy(Timeline& thread) {
  if (thread.proxy_fences.size() == kMostFences) thread.proxy_fences.erase(thread.proxy_fences.begin());
  thread.proxy_fences.push_back({thread.now.time, thread.known});
  ++thread.now.time;  // what the thread does next is not covered
}

bool Actors::fenced_by(const Timeline& thread, const Timeline& reader, Epoch write) const noexcept {
  const auto& fences = thread.proxy_fences;
  const std::uint32_t passed = thread.index < reader.num_own ? reader.own[thread.index] : 0;
  auto after = std::ranges::upper_bound(fences, passed, {}, &ProxyFence::time);
  if (after == fences.begin()) return passed > 0 && fences.size() == kMostFences;
  --after;
  return (write.actor == thread.now.actor && write.time <= after->time) || known_to(after->known, write);
}

bool Actors::fenced(const Timeline& reader, Epoch write) {
  const auto& threads = blocks_[reader.block].threads;
  if (const std::uint32_t writer = write.actor - reader.first;
      writer < threads.size() && fenced_by(threads[writer], reader, write))
    return true;
  if (last_fencing_ < threads.size() && fenced_by(threads[last_fencing_], reader, write)) return true;
  for (const Timeline& thread : threads) {
    if (!fenced_by(thread, reader, write)) continue;
    last_fencing_ = thread.index;
    return true;
  }
  return false;
}

void Actors::relaxed_store(Timeline& timeline, const void* object, bool reads) {
  // A store that does not read what was there ends what was released through it.
  if (!reads) objects_.erase(object);
  if (timeline.fenced) merge_known(objects_[object], timeline.fenced);
}

void Actors::relaxed_load(Timeline& timeline, const void* object) {
  const auto from = objects_.find(object);
  if (from != objects_.end()) timeline.loaded = clocks_.merge(timeline.loaded, from->second.clock);
}

std::uint32_t Actors::take_operation(Block& block, std::uint32_t block_index, const ClockRef& before) {
  const std::size_t looked_at = std::min(block.ended.size(), kMostLookedAt);
  for (std::size_t i = 0; i < looked_at; ++i) {
    Operation& operation = operations_[block.operations[block.ended[i]]];
    Timeline& timeline = operation.timeline;
    if (before->time_of(block_index, timeline.index) < timeline.used) continue;
    ++timeline.now.time;
    block.ended.erase(block.ended.begin() + static_cast<std::ptrdiff_t>(i));
    return timeline.now.actor - kFirstOperation;
  }
  const auto number = static_cast<std::uint32_t>(operations_.size());
  Timeline timeline;
  timeline.now = {kFirstOperation + number, 1};
  timeline.block = block_index;
  timeline.index = num_threads_ + static_cast<std::uint32_t>(block.operations.size());
  timeline.first = block_index * num_threads_;
  operations_.push_back({std::move(timeline), {}});
  block.operations.push_back(number);
  return number;
}

std::uint32_t Actors::fork(std::uint32_t block, std::span<const std::uint32_t> threads, const char* what, Site site) {
  ClockRef before;
  for (const std::uint32_t index : threads) before = clocks_.merge(before, thread(block, index).known);
  std::vector<std::uint32_t>& row = clocks_.row(before, block, num_threads_);
  for (const std::uint32_t index : threads) row[index] = std::max(row[index], thread(block, index).now.time++);
  Operation& operation = operations_[take_operation(blocks_[block], block, before)];
  operation.lives.push_back({operation.timeline.now.time, threads.front(), what});
  operation.timeline.site = site;
  operation.timeline.swizzle = kAnySwizzle;
  operation.timeline.in_async_proxy = false;
  operation.timeline.know(std::move(before));
  return operation.timeline.index;
}

void Actors::end(Timeline& operation) {
  if (has_block(operation.block)) {
    blocks_[operation.block].ended.push_back(operation.index - num_threads_);
  } else {
    operation.know({});
  }
}

Identity Actors::identify(Epoch epoch) const noexcept {
  if (epoch.actor < kFirstOperation) return {epoch.actor / num_threads_, epoch.actor % num_threads_, nullptr};
  const Operation& operation = operations_[epoch.actor - kFirstOperation];
  auto life = operation.lives.end() - 1;
  while (life->begin > epoch.time) --life;
  return {operation.timeline.block, life->thread, life->what};
}

}  // namespace moegen::cpu
