// SPDX-License-Identifier: Apache-2.0
// CheckedActor: an asynchronous operation as the checks see it; nothing where the launch is not checked.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/check/checker.hpp"
#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

class CheckedActor {
 public:
  CheckedActor() = default;
  /// Begins after what `threads` of `block` did so far.
  CheckedActor(const Block& block, std::span<const std::uint32_t> threads, const char* what, Site site)
      : checker_(Scheduler::current().checker()) {
    if (checker_) actor_ = checker_->fork(block, threads, what, site);
  }
  /// Begins after what the running thread did so far.
  CheckedActor(const char* what, Site site)
      : CheckedActor(*Scheduler::current().running().block, {&Scheduler::current().running().index, 1}, what, site) {}

  bool is_checked() const noexcept { return checker_ != nullptr; }
  void read(const void* address, std::uint32_t bytes) const {
    if (checker_ && bytes > 0) checker_->access(actor_, address, bytes, 1, Access::read);
  }
  void write(const void* address, std::uint32_t bytes) const {
    if (checker_ && bytes > 0) checker_->access(actor_, address, bytes, 1, Access::write);
  }
  /// In which swizzle the tiles lie that are read or written from now on.
  void set_swizzle(std::uint32_t span) const {
    if (checker_) checker_->set_swizzle(actor_, span);
  }
  /// It is of the async proxy: bulk and tensor copies, products of a warpgroup.
  void set_async_proxy() const {
    if (checker_) checker_->set_async_proxy(actor_);
  }
  /// Takes part in the counting of a word that others count in, too.
  void count(const void* word) const {
    if (checker_) checker_->access(actor_, word, 8, 8, Access::atomic);
  }
  void release(const void* object) const {
    if (checker_) checker_->release(actor_, object);
  }
  void acquire(const void* object) const {
    if (checker_) checker_->acquire(actor_, object);
  }
  void end() const {
    if (checker_) checker_->end(actor_);
  }

 private:
  Checker* checker_ = nullptr;
  Actor actor_;
};

}  // namespace moegen::cpu
