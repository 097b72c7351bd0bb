// SPDX-License-Identifier: Apache-2.0
// Warpgroup: the wgmma operations of 128 threads between issue and retirement.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "cpu/model/actor.hpp"
#include "cpu/model/matrix_descriptor.hpp"
#include "cpu/model/tensor_core.hpp"

namespace moegen::cpu {

inline constexpr std::uint32_t kWarpgroupSize = 128, kWgmmaRows = 64;

/// Accumulators in flight. While operations on them are, the threads' own registers hold NaN.
struct Accumulators {
  std::uint32_t width = 0;                         ///< N
  std::array<float*, kWarpgroupSize> registers{};  ///< of each thread, width / 2 floats
  std::vector<float> values;                       ///< 64 x N
  std::uint32_t operations_left = 0;

  /// From a thread's registers to its places in `values`, and from there back to all that are known.
  void take(std::uint32_t thread, float* from);
  void give_back() const;
};

/// What all threads of an operation must say alike.
struct WgmmaShape {
  std::uint32_t width = 0;
  MoegenCpuElement element = MOEGEN_CPU_BFLOAT16;
  bool a_in_registers = false;
  std::uint64_t a = 0, b = 0;  ///< descriptors
  std::uint32_t flags = 0;
  bool operator==(const WgmmaShape&) const = default;
};

struct WgmmaOperation {
  WgmmaShape shape;
  Site site = 0;
  std::shared_ptr<Accumulators> accumulators;
  std::array<std::array<std::uint32_t, 4>, kWarpgroupSize> a_registers;
};

/// Operations between two commits.
struct WgmmaGroup {
  std::vector<std::unique_ptr<WgmmaOperation>> operations;
  std::vector<CheckedActor> readers;  ///< one for each operation, from the moment that all threads have committed
  std::uint32_t committed = 0;        ///< threads
  std::size_t size = 0;               ///< operations, as the first thread committed them
};

struct Warpgroup {
  Block* block = nullptr;
  std::uint32_t index = 0;
  std::deque<std::unique_ptr<WgmmaGroup>> groups;  ///< those not performed
  std::uint64_t performed = 0;                     ///< number of groups[0]
  bool in_flight = false;                          ///< groups[0] was submitted
  struct Position {
    std::uint64_t group = 0;     ///< that the thread issues into
    std::size_t operations = 0;  ///< that it issued into it
    std::uint64_t awaited = 0;   ///< groups that it has waited for
  };
  std::array<Position, kWarpgroupSize> positions{};
  WaitList waiters;
  std::vector<float> a, b;  ///< operands of the product that takes place; here because the stacks of threads are small
  std::array<char, 64> group_objects{};  ///< what the checks know the latest groups by

  WgmmaGroup& group(std::uint64_t number);
  const void* object(std::uint64_t number) const noexcept { return &group_objects[number % group_objects.size()]; }
};

/// Computes `operation` of `warpgroup`.
void perform_wgmma(Warpgroup& warpgroup, const WgmmaOperation& operation, const CheckedActor& reader);

}  // namespace moegen::cpu
