// SPDX-License-Identifier: Apache-2.0
// Mbarrier: the model of PTX's mbarrier objects. The word in shared memory holds the whole state, as on hardware;
// beside it the model keeps who waits, and the word as it left it, to notice when something else writes there.
#pragma once

#include <cstdint>

#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

class CheckedActor;
struct Block;

/// The fields of the word, in our own arrangement; limits as PTX has them.
struct MbarrierWord {
  std::uint32_t pending = 0;   ///< arrivals until the phase completes; bits 0 .. 19
  std::uint32_t expected = 0;  ///< arrivals of each phase; bits 20 .. 39
  std::int64_t bytes = 0;      ///< that copies are expected to bring, less what they brought; bits 40 .. 61, signed
  std::uint32_t phase = 0;     ///< parity of the current, incomplete phase; bit 62. Bit 63 is set in every valid word

  static MbarrierWord from(std::uint64_t word) noexcept {
    constexpr std::uint64_t kArrivals = (1u << 20) - 1;
    return {.pending = static_cast<std::uint32_t>(word & kArrivals),
            .expected = static_cast<std::uint32_t>(word >> 20 & kArrivals),
            .bytes = static_cast<std::int64_t>(word << 2) >> 42,
            .phase = static_cast<std::uint32_t>(word >> 62 & 1)};
  }
  std::uint64_t word() const noexcept {
    return pending | std::uint64_t{expected} << 20 | (static_cast<std::uint64_t>(bytes) & 0x3FFFFF) << 40 |
           std::uint64_t{phase} << 62 | std::uint64_t{1} << 63;
  }
  bool complete() const noexcept { return pending == 0 && bytes == 0; }
};
inline constexpr std::uint32_t kMostArrivals = (1u << 20) - 1;
inline constexpr std::int64_t kMostBytes = (1 << 20) - 1;

struct Mbarrier {
  std::uint64_t* address = nullptr;
  std::uint64_t word = 0;  ///< as the model left it
  WaitList waiters;        ///< for the current phase

  /// What the checks know the phase of `parity` by: waiters see what was released to it.
  const void* phase_object(std::uint64_t parity) const noexcept {
    return reinterpret_cast<const char*>(address) + 1 + parity;
  }
};

/// The mbarrier at `address` in any block that is resident with the running thread's. Fails with misuse, naming
/// `operation`, where there is none.
Mbarrier& find_mbarrier(std::uint64_t* address, const char* operation, Site site);

/// The arrival of a thread's copies at the barrier at `offset` in `block`. Called where an operation is performed.
void complete_arrival(Block& block, std::uint32_t offset, const CheckedActor& actor, Site site);

/// A copy brought `bytes` that count on the barrier at `offset` in `block`. Called where an operation is performed.
void complete_bytes(Block& block, std::uint32_t offset, std::int64_t bytes, const CheckedActor& actor);

}  // namespace moegen::cpu
