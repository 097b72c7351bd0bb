// SPDX-License-Identifier: Apache-2.0
// Stores from shared to global memory in two steps, reading and writing, since a thread can wait for each.
#pragma once

#include <memory>

#include "cpu/model/actor.hpp"

namespace moegen::cpu {

/// What a store does; keeps what it read until it writes.
class StoreBody {
 public:
  virtual ~StoreBody() = default;
  virtual void read(const CheckedActor& actor) = 0;
  virtual void write(const CheckedActor& actor) = 0;
};

/// Issues a store in the running thread's open bulk group.
void submit_store(std::unique_ptr<StoreBody> body, Site site);

}  // namespace moegen::cpu
