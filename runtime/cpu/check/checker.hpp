// SPDX-License-Identifier: Apache-2.0
// Checker: what a checked launch tells about itself: every access, and everything that orders accesses.
//
// The order is "happens before": program order of a thread, and edges that synchronisation makes. An edge is told in
// one of two ways: `join`, where a set of threads meets (each sees all that the others did before), and `release` /
// `acquire` through an object (a word, an mbarrier), where the acquirer sees what the releasers did before their
// release. `join` is for threads that stand still between their arrival and the call; where a thread arrives and goes
// on (bar.arrive, barrier.cluster.arrive, mbarrier.arrive), that is a release, and the end of a wait is an acquire.
// Asynchronous operations are actors of their own: they begin after what their issuer did (fork), and what they did is
// seen by whoever acquires the object that they complete on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/buffers.hpp"
#include "cpu/model/block.hpp"

namespace moegen::cpu {

/// `atomic` reads and writes; a load, or a store or exchange whose old value nobody asks for, is told apart, because a
/// load does not conflict with plain reads and a store may come first in shared memory.
enum class Access : std::uint8_t { read, write, atomic, atomic_load, atomic_store };

/// Whose atomics order or exclude each other: threads of a block, of a cluster, of the device, of everything.
enum class Scope : std::uint8_t { block, cluster, device, system };

/// An asynchronous operation in flight, as the checks know it.
struct Actor {
  std::uint32_t block = 0;
  std::uint32_t slot = 0;  ///< num_threads of the block and up
};

/// One launch's checks. Called from one host thread only: checked launches run on one.
class Checker {
 public:
  virtual ~Checker() = default;

  /// A block's shared memory is fresh: unwritten, and nothing is ordered after the block that had it before.
  virtual void block_started(const Block& block) = 0;
  virtual void block_ended(const Block& block) = 0;

  /// An access of the running thread. `alignment` is what its width demands. Reports what is wrong; abandons the launch
  /// where it cannot go on (out of bounds, misaligned).
  virtual void access(Thread& thread, const void* address, std::uint32_t bytes, std::uint32_t alignment, Access kind,
                      Scope scope, Site site) = 0;

  /// All of `threads` (indices in `block`) have met.
  virtual void join(const Block& block, std::span<const std::uint32_t> threads) = 0;

  /// What the thread did so far is seen by those who acquire `object` from now on.
  virtual void release(Thread& thread, const void* object) = 0;
  virtual void acquire(Thread& thread, const void* object) = 0;
  /// `object` starts anew: nothing was released to it.
  virtual void forget(const void* object) = 0;
  /// A fence of the thread: its later relaxed atomic stores release what it did before the fence, and it has acquired
  /// what the words that it loaded with relaxed atomics before the fence were released with.
  virtual void fence(Thread& thread) = 0;
  /// A fence between proxies: operations of the async proxy that begin after it see what the thread knows to be written
  /// to shared memory.
  virtual void fence_proxy(Thread& thread) = 0;

  /// An operation issued by `threads` of a block begins. It lives until `end`.
  virtual Actor fork(const Block& block, std::span<const std::uint32_t> threads, const char* what, Site site) = 0;
  virtual void access(const Actor& actor, const void* address, std::uint32_t bytes, std::uint32_t alignment,
                      Access kind) = 0;
  /// From now on what the operation writes to shared memory lies, or what it reads is taken to lie, in the swizzle of
  /// `span` bytes; 0 is none. Reports where it reads what was written in another one.
  virtual void set_swizzle(const Actor& actor, std::uint32_t span) = 0;
  /// The operation is of the async proxy. Reports where it reads what was written outside that proxy, with no fence
  /// between them.
  virtual void set_async_proxy(const Actor& actor) = 0;
  virtual void release(const Actor& actor, const void* object) = 0;
  /// The operation sees what was released to `object`.
  virtual void acquire(const Actor& actor, const void* object) = 0;
  virtual void end(const Actor& actor) = 0;
};

struct LaunchRequest;

/// The checks of `request`, which names buffers; findings go to Scheduler::current().
std::unique_ptr<Checker> make_checker(const LaunchRequest& request);

}  // namespace moegen::cpu
