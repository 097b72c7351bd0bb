// SPDX-License-Identifier: Apache-2.0
// Stacks of CUDA threads: 64 KiB each at a multiple of 64 KiB, a guard page at the low end and the thread's context
// (calls/thread_context.h) at the top.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/calls/thread_context.h"

namespace moegen::cpu {

/// The most stacks of a process. Each guard page splits the address space in two more mappings, of which Linux allows a
/// process 65,530.
inline constexpr std::size_t kMaxStacks = 24576;

inline MoegenCpuContext* context_of_stack(char* stack) noexcept { return MOEGEN_CPU_CONTEXT_AT(stack); }

/// Whether `address` lies in the guard page of `stack`.
bool in_guard_page(const char* stack, std::uintptr_t address) noexcept;
/// Bytes that a thread can use of its stack.
std::size_t usable_stack_bytes() noexcept;
/// The lowest usable byte.
char* low_end(char* stack) noexcept;

/// Stacks that go back to the process's pool at the end.
class Stacks {
 public:
  Stacks() = default;
  explicit Stacks(std::vector<char*> stacks) : stacks_(std::move(stacks)) {}
  ~Stacks();
  Stacks(Stacks&& other) noexcept : stacks_(std::exchange(other.stacks_, {})) {}
  Stacks& operator=(Stacks&&) = delete;
  const std::vector<char*>& all() const noexcept { return stacks_; }

 private:
  std::vector<char*> stacks_;
};

/// Stacks that no thread uses now; they stay mapped for the next launch. Thread-safe.
class StackPool {
 public:
  ~StackPool();
  /// `count` stacks. None if the process cannot have that many more.
  Stacks take(std::size_t count);
  void give_back(const std::vector<char*>& stacks) noexcept;

  /// The process's, as the threads of the host that run blocks come and go with each launch.
  static StackPool& process();

 private:
  /// Maps `count` more; false if the limit or the system forbids it.
  bool grow(std::size_t count);

  std::mutex mutex_;
  std::vector<char*> free_;
  struct Mapping {
    void* begin;
    std::size_t bytes;
  };
  std::vector<Mapping> mappings_;
  std::size_t mapped_ = 0;
};

}  // namespace moegen::cpu
