// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/stacks.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace moegen::cpu {
namespace {

/// Stacks that are mapped at once: a large block's.
constexpr std::size_t kGrowth = 128;

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

char* first_aligned(void* begin) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  return static_cast<char*>(begin) + (MOEGEN_CPU_STACK_BYTES - at % MOEGEN_CPU_STACK_BYTES) % MOEGEN_CPU_STACK_BYTES;
}

}  // namespace

bool in_guard_page(const char* stack, std::uintptr_t address) noexcept {
  return address - reinterpret_cast<std::uintptr_t>(stack) < page_bytes();
}

std::size_t usable_stack_bytes() noexcept { return MOEGEN_CPU_STACK_BYTES - page_bytes() - sizeof(MoegenCpuContext); }

char* low_end(char* stack) noexcept { return stack + page_bytes(); }

Stacks::~Stacks() { StackPool::process().give_back(stacks_); }

StackPool::~StackPool() {
  for (const Mapping& mapping : mappings_) munmap(mapping.begin, mapping.bytes);
}

Stacks StackPool::take(std::size_t count) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < count && !grow(count - free_.size())) return Stacks();
  const auto first = free_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<char*> taken(first, free_.end());
  free_.erase(first, free_.end());
  return Stacks(std::move(taken));
}

void StackPool::give_back(const std::vector<char*>& stacks) noexcept {
  const std::lock_guard lock(mutex_);
  free_.insert(free_.end(), stacks.begin(), stacks.end());  // within what grow() reserved
}

bool StackPool::grow(std::size_t count) {
  if (mapped_ + count > kMaxStacks) return false;
  count = std::min(std::max(count, kGrowth), kMaxStacks - mapped_);
  const std::size_t bytes = (count + 1) * MOEGEN_CPU_STACK_BYTES;
  mappings_.reserve(mappings_.size() + 1);
  free_.reserve(mapped_ + count);  // all that there are, so that giving back never allocates
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return false;
  mappings_.push_back({begin, bytes});
  for (std::size_t i = 0; i < count; ++i) {
    char* const stack = first_aligned(begin) + i * MOEGEN_CPU_STACK_BYTES;
    if (mprotect(stack, page_bytes(), PROT_NONE) != 0) return false;
    free_.push_back(stack);
    ++mapped_;
  }
  return true;
}

StackPool& StackPool::process() {
  // Never destroyed: a host thread may still run a kernel while the process exits.
  static StackPool& pool = *new StackPool;
  return pool;
}

}  // namespace moegen::cpu
