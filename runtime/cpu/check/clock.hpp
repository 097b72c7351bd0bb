// SPDX-License-Identifier: Apache-2.0
// Clocks: what an actor knows of the others' progress, as vector clocks.
//
// An actor's time begins at 1 and goes on where it tells others of itself. A clock maps actors to the time up to which
// their doings are known. After a barrier all threads of a block know the same, so clocks are shared and never change
// while they are: a barrier costs one new clock, not one a thread. A clock holds a row for each block of which anything
// is known, and blocks that never synchronised with this one cost nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/check/ref.hpp"

namespace moegen::cpu {

/// Times of the actors of one block, by index in the block; what is past the end is 0, unknown.
struct Row : Counted {
  std::vector<std::uint32_t> times;
};

struct Clock : Counted {
  struct Entry {
    std::uint32_t block = 0;
    Ref<Row> row;
  };
  std::vector<Entry> entries;  ///< by block
  std::uint64_t serial = 0;    ///< of this very content

  const Row* find(std::uint32_t block) const noexcept;
  std::uint32_t time_of(std::uint32_t block, std::uint32_t index) const noexcept;
};

/// Null is the clock of one that knows nothing.
using ClockRef = Ref<Clock>;

/// Makes the clocks of one launch.
class Clocks {
 public:
  /// All that either knows.
  ClockRef merge(const ClockRef& a, const ClockRef& b);
  /// The times of `block` in `clock`, at least `size` of them, to be changed. Valid until `clock` is used otherwise.
  std::vector<std::uint32_t>& row(ClockRef& clock, std::uint32_t block, std::size_t size);
  /// Lets `clock` know an actor up to `time`.
  void add(ClockRef& clock, std::uint32_t block, std::uint32_t index, std::uint32_t time);

 private:
  /// Threads that share a clock acquire the same objects one after the other: the last merges are remembered.
  struct Memo {
    std::uint64_t a = 0, b = 0;
    ClockRef result;
  };

  ClockRef make_merged(const ClockRef& a, const ClockRef& b);

  std::uint64_t next_serial_ = 1;
  std::array<Memo, 64> memos_;
};

}  // namespace moegen::cpu
