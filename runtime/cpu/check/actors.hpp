// SPDX-License-Identifier: Apache-2.0
// Actors: the threads and the asynchronous operations of a launch, how far each has come and what it knows of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cpu/check/clock.hpp"
#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

/// An actor at a time. Actors are numbered over the launch: threads by block, then operations from kFirstOperation.
struct Epoch {
  std::uint32_t actor = 0, time = 0;  ///< time 0: never
  bool operator==(const Epoch&) const noexcept = default;
};
inline constexpr std::uint32_t kFirstOperation = 1u << 31;

/// A swizzle that nothing is known of; else its span in units of 32 bytes.
inline constexpr std::uint8_t kAnySwizzle = 0xFF;

/// A fence of a thread between proxies: it covers what the thread did up to `time` and what it knew.
struct ProxyFence {
  std::uint32_t time = 0;
  ClockRef known;
};

/// One actor's present.
struct Timeline {
  Epoch now;
  std::uint32_t used = 0;              ///< time of an operation's last access
  Site site = 0;                       ///< where an operation was issued
  std::uint8_t swizzle = kAnySwizzle;  ///< of the tile that an operation works on
  bool in_async_proxy = false;         ///< an operation is
  std::uint32_t block = 0, index = 0;  ///< in the block; operations come after the threads
  std::uint32_t first = 0;             ///< number of the block's first thread
  std::uint32_t num_own = 0;           ///< times in `own`
  const std::uint32_t* own = nullptr;  ///< what `known` holds of the actor's own block
  ClockRef known;
  ClockRef fenced;                       ///< what a relaxed atomic store releases: all before the last fence
  ClockRef loaded;                       ///< what the next fence acquires
  std::vector<ProxyFence> proxy_fences;  ///< a thread's last ones, by time

  void know(ClockRef clock);
};

/// Who an epoch was, for reports.
struct Identity {
  std::uint32_t block = 0, thread = 0;
  const char* operation = nullptr;  ///< of an asynchronous one, which `thread` issued
};

class Actors {
 public:
  explicit Actors(std::uint32_t threads_per_block) : num_threads_(threads_per_block) {}

  void begin_block(std::uint32_t block);
  void end_block(std::uint32_t block);
  /// Whether the threads of `block` are known: it has begun and not ended.
  bool has_block(std::uint32_t block) const noexcept {
    return block < blocks_.size() && !blocks_[block].threads.empty();
  }
  Timeline& thread(std::uint32_t block, std::uint32_t index) noexcept { return blocks_[block].threads[index]; }
  Timeline& operation(std::uint32_t block, std::uint32_t index) noexcept;

  /// Whether what `epoch` did is known to `timeline`: happened before its present.
  bool ordered(const Timeline& timeline, Epoch epoch) const noexcept {
    if (epoch.time == 0 || epoch.actor == timeline.now.actor) return true;
    const std::uint32_t index = epoch.actor - timeline.first;
    if (index < num_threads_) return index < timeline.num_own && timeline.own[index] >= epoch.time;
    return ordered_far(timeline, epoch);
  }
  /// The same by what is known alone: true for all actors that share this clock.
  bool known(const Timeline& timeline, Epoch epoch) const noexcept {
    return epoch.time == 0 || ordered_far(timeline, epoch);
  }

  /// All of `threads` know all that any of them knows and did.
  void join(std::uint32_t block, std::span<const std::uint32_t> threads);

  void release(Timeline& timeline, const void* object);
  void acquire(Timeline& timeline, const void* object);
  void forget(const void* object) { objects_.erase(object); }
  /// All objects at [begin, end).
  void forget_range(std::uintptr_t begin, std::uintptr_t end);
  void fence(Timeline& timeline);
  void fence_proxy(Timeline& thread);
  /// Whether a fence between proxies lies after `write` and before what `reader` begins with: of any thread of its
  /// block that knew the write, and that the reader knows to have passed the fence.
  bool fenced(const Timeline& reader, Epoch write);
  /// A relaxed atomic store or load of `object`, which fences make more of.
  void relaxed_store(Timeline& timeline, const void* object, bool reads);
  void relaxed_load(Timeline& timeline, const void* object);

  /// Index in the block of a new operation, which begins after what `threads` did.
  std::uint32_t fork(std::uint32_t block, std::span<const std::uint32_t> threads, const char* what, Site site);
  void end(Timeline& operation);

  Identity identify(Epoch epoch) const noexcept;
  std::uint32_t block_of(std::uint32_t actor) const noexcept;
  std::uint32_t num_threads() const noexcept { return num_threads_; }

 private:
  struct Block {
    std::vector<Timeline> threads;          ///< empty before it begins and after it ends
    std::vector<std::uint32_t> operations;  ///< numbers in operations_, by index in the block
    std::vector<std::uint32_t> ended;       ///< of those, the ones that have ended
  };
  struct Life {
    std::uint32_t begin = 0;  ///< time
    std::uint32_t thread = 0;
    const char* what = nullptr;
  };
  /// Operations whose order is known follow one another as one actor.
  struct Operation {
    Timeline timeline;
    std::vector<Life> lives;
  };
  struct Object {
    ClockRef clock;
    std::vector<std::uint64_t> merged;  ///< serials of clocks that are in `clock`
  };

  bool ordered_far(const Timeline& timeline, Epoch epoch) const noexcept;
  bool known_to(const ClockRef& clock, Epoch epoch) const noexcept;
  bool fenced_by(const Timeline& thread, const Timeline& reader, Epoch write) const noexcept;
  void merge_known(Object& object, const ClockRef& known);
  ClockRef present(const Timeline& timeline);
  std::uint32_t take_operation(Block& block, std::uint32_t block_index, const ClockRef& before);

  std::uint32_t num_threads_;
  Clocks clocks_;
  std::vector<Block> blocks_;
  std::vector<Operation> operations_;
  std::unordered_map<const void*, Object> objects_;
  std::uint32_t last_fencing_ = 0;  ///< thread whose fence was found last: often the next one's, too
};

}  // namespace moegen::cpu
