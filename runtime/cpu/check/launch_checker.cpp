// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/launch_checker.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "cpu/check/wording.hpp"

namespace moegen::cpu {
namespace {

/// Memory further away than this explains nothing about an address.
constexpr std::uintptr_t kNear = std::uintptr_t{1} << 20;

std::uintptr_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Whether `address` is on the stack at whose top the thread's context lies.
bool on_stack_of(const Thread& thread, std::uintptr_t address) noexcept {
  return (address ^ address_of(thread.context)) < MOEGEN_CPU_STACK_BYTES;
}

std::uintptr_t distance(std::uintptr_t address, std::uintptr_t begin, std::uintptr_t end) noexcept {
  return address < begin ? begin - address : address < end ? 0 : address - end + 1;
}

}  // namespace

LaunchChecker::LaunchChecker(const CheckedLaunch& launch, std::unique_ptr<Findings> findings)
    : launch_(launch),
      findings_(std::move(findings)),
      actors_(launch.threads_per_block),
      races_(actors_, launch.cluster_size),
      regions_(launch.buffers, launch.constants) {}

// --- blocks ----------------------------------------------------------------------------------------------------------

void LaunchChecker::block_started(const Block& block) {
  actors_.begin_block(block.index);
  const std::uintptr_t begin = address_of(block.shared);
  // Its barriers and its cluster's serve it as if made anew: nothing is ordered by what was released to them before.
  forget_range(&block, sizeof block);
  if (block.cluster != nullptr) forget_range(block.cluster, sizeof *block.cluster);
  forget_range(block.shared, block.shared_bytes);
  SharedMemory& memory = shared_[begin];
  if (memory.shadow) {
    memory.shadow->clear(races_.sets());
    shared_of_[memory.block] = nullptr;
  }
  memory = {block.index, begin, begin + block.shared_bytes, std::make_unique<Shadow>(begin, block.shared_bytes), false};
  if (block.index >= shared_of_.size()) shared_of_.resize(block.index + 1);
  shared_of_[block.index] = &memory;
}

void LaunchChecker::block_ended(const Block& block) {
  actors_.end_block(block.index);
  SharedMemory* const memory = shared_of_[block.index];
  if (memory == nullptr) return;
  memory->shadow->clear(races_.sets());
  memory->has_ended = true;
}

Timeline& LaunchChecker::timeline_of(const Thread& thread) { return actors_.thread(thread.block->index, thread.index); }

// --- accesses --------------------------------------------------------------------------------------------------------

void LaunchChecker::access(Thread& thread, const void* address, std::uint32_t bytes, std::uint32_t alignment,
                           Access kind, Scope scope, Site site) {
  if (bytes == 0) return;
  const Request request{address_of(address), bytes, Tag(site, kind, scope, bytes), &timeline_of(thread), &thread};
  if (on_stack_of(thread, request.address)) return;
  check(request, alignment);
  if (!is_atomic(kind)) return;
  if (kind != Access::atomic_load) actors_.relaxed_store(*request.who, address, kind == Access::atomic);
  if (kind != Access::atomic_store) actors_.relaxed_load(*request.who, address);
}

void LaunchChecker::access(const Actor& actor, const void* address, std::uint32_t bytes, std::uint32_t alignment,
                           Access kind) {
  if (bytes == 0) return;
  Timeline& who = actors_.operation(actor.block, actor.slot);
  who.used = who.now.time;
  check({address_of(address), bytes, Tag(who.site, kind, Scope::cluster, bytes), &who, nullptr}, alignment);
}

void LaunchChecker::check(const Request& request, std::uint32_t alignment) {
  if (request.address % alignment != 0) misaligned(request, alignment);
  SharedMemory* own = shared_of_[request.who->block];
  if (own != nullptr && request.address - own->begin < own->end - own->begin) return check_shared(request, *own);
  if (Region* const region = regions_.find(request.address, request.tag.site())) return check_global(request, *region);
  if (SharedMemory* const memory = find_shared(request.address)) {
    if (!races_.includes(Scope::cluster, memory->block, request.who->block)) other_cluster(request, *memory);
    return check_shared(request, *memory);
  }
  const bool is_read = !writes(request.tag.kind());
  if (!is_read || !regions_.in_constants(request.address, request.bytes)) out_of_bounds(request);
}

void LaunchChecker::check_shared(const Request& request, SharedMemory& memory) {
  if (request.bytes > memory.end - request.address) past_the_end(request, memory.end, "shared memory");
  if (memory.has_ended) return report_ended(request, memory);
  const bool reads = request.tag.kind() != Access::write && request.tag.kind() != Access::atomic_store;
  std::optional<PastAccess> race;
  std::uintptr_t raced = 0, unwritten = 0;
  memory.shadow->for_each(races_.sets(), request.address, request.bytes, [&](Cell& cell, std::size_t offset) {
    if (reads && !cell.is_written) {
      if (unwritten == 0) unwritten = memory.begin + offset;
      cell.is_written = true;  // told once
    }
    const std::uint8_t swizzle = request.who->swizzle;
    if (cell.is_generic && request.who->in_async_proxy && request.tag.kind() == Access::read) {
      if (!actors_.fenced(*request.who, cell.write.epoch)) report_proxy(request, cell, memory.begin + offset);
      cell.is_generic = false;  // told once, or in order
    }
    if (!reads) {
      cell.is_generic = !request.who->in_async_proxy;
      cell.swizzle = swizzle;
    } else if (swizzle != kAnySwizzle && cell.swizzle != kAnySwizzle && cell.swizzle != swizzle) {
      report_swizzle(request, cell, memory.begin + offset);
    }
    const auto found = races_.note(cell, *request.who, request.tag, false);
    if (found && !race) race = found, raced = memory.begin + offset;
  });
  if (race) report_race(request, *race, raced, false);
  if (unwritten != 0) report_unwritten(request, unwritten);
}

void LaunchChecker::check_global(const Request& request, Region& region) {
  if (request.bytes > region.buffer.end - request.address)
    past_the_end(request, region.buffer.end, fmt::format("'{}'", region.buffer.name));
  std::optional<PastAccess> race;
  std::uintptr_t raced = 0;
  region.shadow.for_each(races_.sets(), request.address, request.bytes, [&](Cell& cell, std::size_t offset) {
    const auto found = races_.note(cell, *request.who, request.tag, true);
    if (found && !race) race = found, raced = region.buffer.begin + offset;
  });
  if (race) report_race(request, *race, raced, true);
}

LaunchChecker::SharedMemory* LaunchChecker::find_shared(std::uintptr_t address) noexcept {
  const auto above = shared_.upper_bound(address);
  if (above == shared_.begin()) return nullptr;
  SharedMemory& memory = std::prev(above)->second;
  return address < memory.end ? &memory : nullptr;
}

// --- order -----------------------------------------------------------------------------------------------------------

void LaunchChecker::join(const Block& block, std::span<const std::uint32_t> threads) {
  if (!threads.empty()) actors_.join(block.index, threads);
}

void LaunchChecker::release(Thread& thread, const void* object) { actors_.release(timeline_of(thread), object); }
void LaunchChecker::acquire(Thread& thread, const void* object) { actors_.acquire(timeline_of(thread), object); }
void LaunchChecker::forget(const void* object) { actors_.forget(object); }
void LaunchChecker::forget_range(const void* begin, std::size_t bytes) {
  actors_.forget_range(address_of(begin), address_of(begin) + bytes);
}
void LaunchChecker::fence(Thread& thread) { actors_.fence(timeline_of(thread)); }
void LaunchChecker::fence_proxy(Thread& thread) { actors_.fence_proxy(timeline_of(thread)); }

Actor LaunchChecker::fork(const Block& block, std::span<const std::uint32_t> threads, const char* what, Site site) {
  return {block.index, actors_.fork(block.index, threads, what, site)};
}

void LaunchChecker::set_swizzle(const Actor& actor, std::uint32_t span) {
  actors_.operation(actor.block, actor.slot).swizzle = static_cast<std::uint8_t>(span / 32);
}

void LaunchChecker::set_async_proxy(const Actor& actor) {
  actors_.operation(actor.block, actor.slot).in_async_proxy = true;
}

void LaunchChecker::release(const Actor& actor, const void* object) {
  actors_.release(actors_.operation(actor.block, actor.slot), object);
}

void LaunchChecker::acquire(const Actor& actor, const void* object) {
  actors_.acquire(actors_.operation(actor.block, actor.slot), object);
}

void LaunchChecker::end(const Actor& actor) { actors_.end(actors_.operation(actor.block, actor.slot)); }

// --- findings --------------------------------------------------------------------------------------------------------

std::string LaunchChecker::action(const Request& request) const {
  return describe_action(actors_.identify(request.who->now), request.tag);
}

CpuParty LaunchChecker::party(Epoch epoch, Tag tag) const {
  const Identity who = actors_.identify(epoch);
  return {who.block, who.thread, describe_action(who, tag), findings_->place(tag.site())};
}

CpuReport LaunchChecker::make_report(CpuFinding finding, std::string what, const Request& request) const {
  return {.finding = finding, .what = std::move(what), .parties = {party(request.who->now, request.tag)}, .repeats = 0};
}

/// An address in known memory.
std::string LaunchChecker::locate(std::uintptr_t address, const Request& request) {
  if (const SharedMemory* const memory = find_shared(address))
    return describe_shared(address - memory->begin, memory->block, request.who->block);
  if (const Region* const region = regions_.find(address, request.tag.site()))
    return describe_offset(region->buffer.name, address - region->buffer.begin, request.tag.bytes());
  return locate_outside(request);
}

/// The request's address, which is in no memory that it may touch.
std::string LaunchChecker::locate_outside(const Request& request) {
  const std::uintptr_t address = request.address;
  if (regions_.in_constants(address, 1)) return "in a constant of the kernel";
  if (request.thread != nullptr)
    for (const Thread* thread : request.thread->block->threads)
      if (thread->context != nullptr && on_stack_of(*thread, address))
        return fmt::format("on the stack of thread {}", thread->index);
  const Buffer* const buffer = regions_.nearest(address);
  const SharedMemory* const shared = shared_of_[request.who->block];
  const std::uintptr_t to_buffer = buffer != nullptr ? distance(address, buffer->begin, buffer->end) : kNear;
  const std::uintptr_t to_shared = shared != nullptr ? distance(address, shared->begin, shared->end) : kNear;
  if (std::min(to_buffer, to_shared) >= kNear) return fmt::format("at {:#x}, which is near no known memory", address);
  if (to_shared < to_buffer) return describe_distance(address, shared->begin, shared->end, "shared memory");
  return describe_distance(address, buffer->begin, buffer->end, fmt::format("'{}'", buffer->name));
}

void LaunchChecker::fail(CpuFinding finding, std::string what, const Request& request) {
  findings_->fail(make_report(finding, std::move(what), request));
  std::abort();  // GCC 12 does not see that a virtual function never returns
}

void LaunchChecker::misaligned(const Request& request, std::uint32_t alignment) {
  fail(
      CpuFinding::misaligned,
      fmt::format("{} at {}, which is no multiple of {}", action(request), locate(request.address, request), alignment),
      request);
}

void LaunchChecker::past_the_end(const Request& request, std::uintptr_t end, const std::string& memory) {
  fail(CpuFinding::out_of_bounds,
       fmt::format("{} at {}, of which {} are past the end of {}", action(request), locate(request.address, request),
                   request.address + request.bytes - end, memory),
       request);
}

void LaunchChecker::other_cluster(const Request& request, const SharedMemory& memory) {
  fail(CpuFinding::out_of_bounds,
       fmt::format("{} at {}, which is in another cluster", action(request),
                   describe_shared(request.address - memory.begin, memory.block, request.who->block)),
       request);
}

void LaunchChecker::out_of_bounds(const Request& request) {
  fail(CpuFinding::out_of_bounds, fmt::format("{}, {}", action(request), locate_outside(request)), request);
}

/// An operation that nobody waited for. (Threads of peers are told by the model.)
void LaunchChecker::report_ended(const Request& request, const SharedMemory& memory) {
  findings_->report(make_report(CpuFinding::misuse,
                                fmt::format("{}: {} after block {} has ended; the block must wait for it",
                                            locate(request.address, request), action(request), memory.block),
                                request));
}

void LaunchChecker::report_unwritten(const Request& request, std::uintptr_t address) {
  findings_->report(make_report(
      CpuFinding::unwritten_shared,
      fmt::format("{} at {}, which nothing has written{}", action(request), locate(request.address, request),
                  address != request.address ? fmt::format(" from {} on", locate(address, request)) : ""),
      request));
}

void LaunchChecker::report_swizzle(const Request& request, const Cell& cell, std::uintptr_t address) {
  const CpuParty writer = party(cell.write.epoch, cell.write.tag);
  CpuReport report = make_report(
      CpuFinding::misuse,
      fmt::format("{}: {} takes it to lie {}, and {} laid it {}", locate(address, request), action(request),
                  describe_swizzle(32u * request.who->swizzle), writer.action, describe_swizzle(32u * cell.swizzle)),
      request);
  report.parties.push_back(writer);
  findings_->report(std::move(report));
}

void LaunchChecker::report_proxy(const Request& request, const Cell& cell, std::uintptr_t address) {
  const CpuParty writer = party(cell.write.epoch, cell.write.tag);
  CpuReport report =
      make_report(CpuFinding::misuse,
                  fmt::format("{}: {} is of the async proxy, {} is not, and no fence_proxy_async lies between them",
                              locate(address, request), action(request), writer.action),
                  request);
  report.parties.push_back(writer);
  findings_->report(std::move(report));
}

void LaunchChecker::report_race(const Request& request, const PastAccess& earlier, std::uintptr_t address,
                                bool is_global) {
  const CpuParty other = party(earlier.epoch, earlier.tag);
  std::string what =
      fmt::format("{}: {}, and an earlier {}, in no order", locate(address, request), action(request), other.action);
  if (is_atomic(request.tag.kind()) && is_atomic(earlier.tag.kind()))
    what +=
        fmt::format(": {} scope does not include both", to_string(std::min(request.tag.scope(), earlier.tag.scope())));
  CpuReport report =
      make_report(is_global ? CpuFinding::race_global : CpuFinding::race_shared, std::move(what), request);
  report.parties.push_back(other);
  findings_->report(std::move(report));
}

}  // namespace moegen::cpu
