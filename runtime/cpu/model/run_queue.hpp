// SPDX-License-Identifier: Apache-2.0
// RunQueue: the threads that can run, first in first out, or any of them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moegen::cpu {

struct Thread;

/// A ring with room for all threads: nothing allocates while they run.
class RunQueue {
 public:
  /// Empties it and makes room for `threads`.
  void reset(std::size_t threads) {
    ring_.resize(std::bit_ceil(threads));
    begin_ = end_ = 0;
  }
  bool empty() const noexcept { return begin_ == end_; }
  std::size_t size() const noexcept { return end_ - begin_; }
  void push(Thread& thread) noexcept { at(end_++) = &thread; }
  Thread& pop() noexcept { return *at(begin_++); }
  /// Takes the one at place `index` from the front; the front takes its place.
  Thread& pop_at(std::size_t index) noexcept {
    std::swap(at(begin_), at(begin_ + index));
    return pop();
  }

 private:
  Thread*& at(std::size_t position) noexcept { return ring_[position & (ring_.size() - 1)]; }

  std::vector<Thread*> ring_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace moegen::cpu
