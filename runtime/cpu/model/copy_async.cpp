// SPDX-License-Identifier: Apache-2.0
// cp.async: copies of a few bytes from global to shared memory, and arrivals when they are there.
#include <array>
#include <cstring>

#include "cpu/model/calls.hpp"
#include "cpu/model/copies.hpp"

namespace moegen::cpu {

/// An arrival comes when its batch and all earlier ones of the thread are written. It tells of the copies alone, and of
/// what the thread did before the one of them that carries it: never of what the thread wrote after its copies.
struct CopyBatch {
  std::uint32_t unwritten = 0;
  char written = 0;      ///< its address is what the checks know the copies by
  CheckedActor carrier;  ///< the copy that was performed first
  bool is_carried = false;
  bool is_closed = false;  ///< there is an arrival
  std::uint32_t barrier = 0;
  Site site = 0;
};

namespace {

CopyBatch& open_batch(CopyGroups& groups) {
  if (groups.batches.empty() || groups.batches.back()->is_closed) {
    groups.batches.push_back(std::make_shared<CopyBatch>());
    if (Checker* checker = Scheduler::current().checker()) checker->forget(&groups.batches.back()->written);
  }
  return *groups.batches.back();
}

void arrive(Block& block, CopyBatch& batch) {
  batch.carrier.acquire(&batch.written);
  complete_arrival(block, batch.barrier, batch.carrier, batch.site);
  batch.carrier.end();
}

/// Makes the arrivals that nothing is missing for.
void arrive_complete(Block& block, CopyGroups& groups) {
  while (!groups.batches.empty() && groups.batches.front()->is_closed && groups.batches.front()->unwritten == 0) {
    arrive(block, *groups.batches.front());  // owned by the groups: a finding leaves this stack for ever
    groups.batches.pop_front();
  }
}

struct SmallCopy final : AsyncOperation {
  Block* block = nullptr;
  char* shared = nullptr;
  const char* global = nullptr;
  std::uint32_t bytes = 0, source_bytes = 0;
  std::shared_ptr<CopyGroup> group;
  std::shared_ptr<CopyBatch> batch;
  CopyGroups* groups = nullptr;
  CheckedActor actor;

  void perform() override {
    actor.read(global, source_bytes);
    actor.write(shared, bytes);
    std::array<char, 16> value{};
    std::memcpy(value.data(), global, source_bytes);
    std::memcpy(shared, value.data(), bytes);
    for (const char* object : {&group->read, &group->written, &batch->written}) actor.release(object);
    leave();
    --group->unwritten;
    --batch->unwritten;
    arrive_complete(*block, *groups);
    Scheduler::current().wake_all(groups->waiter);
  }

 private:
  /// Ends, unless an arrival needs one that knows of the copies.
  void leave() {
    if (batch->is_carried) return actor.end();
    batch->carrier = actor;
    batch->is_carried = true;
  }
};

}  // namespace
}  // namespace moegen::cpu

using namespace moegen::cpu;

extern "C" {

void moegen_cpu_copy_async(void* shared, const void* global, unsigned int bytes, unsigned int source_bytes,
                           unsigned int site) {
  const Call call{"cp.async", site};
  Scheduler::current().preemption_point();
  call.require(source_bytes <= bytes, "more bytes are to be read than are to be written");
  const SharedRange range = find_own_shared(shared, bytes, call);
  call.require_aligned(range.data(), bytes, "shared");
  call.require_aligned(global, bytes, "global");
  auto copy = std::make_unique<SmallCopy>();
  copy->block = range.block;
  copy->shared = range.data();
  copy->global = static_cast<const char*>(global);
  copy->bytes = bytes;
  copy->source_bytes = source_bytes;
  copy->groups = &groups_of_running(&AsyncState::copies);
  copy->group = open_group(*copy->groups);
  ++open_batch(*copy->groups).unwritten;
  copy->batch = copy->groups->batches.back();
  copy->actor = CheckedActor("cp.async to shared memory", site);
  ++copy->group->unwritten;
  Scheduler::current().submit(std::move(copy), site);
}

void moegen_cpu_copy_commit(unsigned int) { commit_group(groups_of_running(&AsyncState::copies)); }

void moegen_cpu_copy_wait(unsigned int pending, unsigned int site) {
  Scheduler::current().preemption_point();
  const Wait wait{
      .operation = "cp.async.wait_group", .object = pending, .detail = 0, .site = site, .describe = nullptr};
  wait_for_groups(groups_of_running(&AsyncState::copies), pending, false, wait);
}

void moegen_cpu_copy_arrive(unsigned long* barrier, unsigned int site) {
  const Call call{"cp.async.mbarrier.arrive", site};
  Scheduler::current().preemption_point();
  find_mbarrier(barrier, call.operation, site);
  Block& block = *Scheduler::current().running().block;
  call.require(block.holds(barrier), "the mbarrier is another block's");
  CopyGroups& groups = groups_of_running(&AsyncState::copies);
  CopyBatch& batch = open_batch(groups);
  if (!batch.is_carried && batch.unwritten == 0) {
    batch.carrier = CheckedActor("arrival of no copies", site);
    batch.is_carried = true;
  }
  batch.barrier = block.offset_of(barrier);
  batch.site = site;
  batch.is_closed = true;
  arrive_complete(block, groups);
}

void moegen_cpu_fence_proxy_async(unsigned int) {
  Scheduler& scheduler = Scheduler::current();
  scheduler.preemption_point();
  if (Checker* checker = scheduler.checker()) checker->fence_proxy(scheduler.running());
}

}  // extern "C"
