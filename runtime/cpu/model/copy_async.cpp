// SPDX-License-Identifier: Apache-2.0
// cp.async: copies of a few bytes from global to shared memory.
#include <array>
#include <cstring>

#include "cpu/model/calls.hpp"
#include "cpu/model/copies.hpp"

namespace moegen::cpu {
namespace {

struct SmallCopy final : AsyncOperation {
  char* shared = nullptr;
  const char* global = nullptr;
  std::uint32_t bytes = 0, source_bytes = 0;
  std::shared_ptr<CopyGroup> group;
  CopyGroups* groups = nullptr;
  CheckedActor actor;

  void perform() override {
    actor.read(global, source_bytes);
    actor.write(shared, bytes);
    std::array<char, 16> value{};
    std::memcpy(value.data(), global, source_bytes);
    std::memcpy(shared, value.data(), bytes);
    actor.release(&group->read);
    actor.release(&group->written);
    actor.end();
    --group->unwritten;
    Scheduler::current().wake_all(groups->waiter);
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
  copy->shared = range.data();
  copy->global = static_cast<const char*>(global);
  copy->bytes = bytes;
  copy->source_bytes = source_bytes;
  copy->groups = &groups_of_running(&AsyncState::copies);
  copy->group = open_group(*copy->groups);
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

}  // extern "C"
