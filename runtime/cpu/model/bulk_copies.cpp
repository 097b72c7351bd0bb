// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk: runs of bytes between global and shared memory.
#include <cstring>

#include "cpu/model/bulk_store.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/copies.hpp"

namespace moegen::cpu {
namespace {

struct BulkLoad final : AsyncOperation {
  SharedRange target;
  const char* global = nullptr;
  std::uint32_t bytes = 0, barrier = 0;
  CheckedActor actor;

  void perform() override {
    actor.read(global, bytes);
    actor.write(target.data(), bytes);
    std::memcpy(target.data(), global, bytes);
    complete_bytes(*target.block, barrier, bytes, actor);
    actor.end();
  }
};

struct BulkRun final : StoreBody {
  const char* shared = nullptr;
  char* global = nullptr;
  std::vector<char> staged;

  void read(const CheckedActor& actor) override {
    actor.read(shared, static_cast<std::uint32_t>(staged.size()));
    std::memcpy(staged.data(), shared, staged.size());
  }
  void write(const CheckedActor& actor) override {
    actor.write(global, static_cast<std::uint32_t>(staged.size()));
    std::memcpy(global, staged.data(), staged.size());
  }
};

void require_bulk(const Call& call, const void* shared, const void* global, std::uint32_t bytes) {
  call.require(bytes % 16 == 0, "the size is not a multiple of 16 bytes");
  call.require_aligned(shared, 16, "shared");
  call.require_aligned(global, 16, "global");
}

/// First half of a store; submits the second.
struct StoreWrite final : AsyncOperation {
  std::unique_ptr<StoreBody> body;
  std::shared_ptr<CopyGroup> group;
  CopyGroups* groups = nullptr;
  CheckedActor writer;

  void perform() override {
    body->write(writer);
    writer.release(&group->written);
    writer.end();
    --group->unwritten;
    Scheduler::current().wake_all(groups->waiter);
  }
};

struct StoreRead final : AsyncOperation {
  std::unique_ptr<StoreWrite> second;
  CheckedActor reader;

  void perform() override {
    second->body->read(reader);
    reader.release(&second->group->read);
    reader.end();
    --second->group->unread;
    Scheduler& scheduler = Scheduler::current();
    scheduler.wake_all(second->groups->waiter);
    scheduler.submit(std::move(second));
  }
};

}  // namespace

void submit_store(std::unique_ptr<StoreBody> body, Site site) {
  auto write = std::make_unique<StoreWrite>();
  write->body = std::move(body);
  write->groups = &groups_of_running(&AsyncState::bulk);
  write->group = open_group(*write->groups);
  write->writer = CheckedActor("bulk copy to global memory", site);
  ++write->group->unread;
  ++write->group->unwritten;
  auto read = std::make_unique<StoreRead>();
  read->second = std::move(write);
  read->reader = CheckedActor("bulk copy from shared memory", site);
  read->reader.set_async_proxy();
  Scheduler::current().submit(std::move(read), site);
}

}  // namespace moegen::cpu

using namespace moegen::cpu;

extern "C" {

void moegen_cpu_bulk_load(void* shared, const void* global, unsigned int bytes, unsigned long* barrier,
                          unsigned int site) {
  const Call call{"cp.async.bulk", site};
  Scheduler::current().preemption_point();
  const SharedRange range = find_shared(shared, bytes, call);
  require_bulk(call, range.data(), global, bytes);
  find_mbarrier(barrier, call.operation, site);
  call.require(range.block->holds(barrier), "the mbarrier is in another block than the destination");
  auto load = std::make_unique<BulkLoad>();
  load->target = range;
  load->global = static_cast<const char*>(global);
  load->bytes = bytes;
  load->barrier = range.block->offset_of(barrier);
  load->actor = CheckedActor("bulk copy to shared memory", site);
  load->actor.set_async_proxy();
  Scheduler::current().submit(std::move(load), site);
}

void moegen_cpu_bulk_store(void* global, const void* shared, unsigned int bytes, unsigned int site) {
  const Call call{"cp.async.bulk", site};
  Scheduler::current().preemption_point();
  const SharedRange range = find_own_shared(shared, bytes, call);
  require_bulk(call, range.data(), global, bytes);
  auto run = std::make_unique<BulkRun>();
  run->shared = range.data();
  run->global = static_cast<char*>(global);
  run->staged.resize(bytes);
  submit_store(std::move(run), site);
}

void moegen_cpu_bulk_commit(unsigned int) { commit_group(groups_of_running(&AsyncState::bulk)); }

void moegen_cpu_bulk_wait(unsigned int pending, unsigned int read, unsigned int site) {
  Scheduler::current().preemption_point();
  const Wait wait{.operation = read ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group",
                  .object = pending,
                  .detail = 0,
                  .site = site,
                  .describe = nullptr};
  wait_for_groups(groups_of_running(&AsyncState::bulk), pending, read != 0, wait);
}

}  // extern "C"
