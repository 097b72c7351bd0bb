// SPDX-License-Identifier: Apache-2.0
// Tables of cases that take minutes to hours, shared by several processes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace moegen::test {

/// The cases that this process takes: first, first + step, ...
struct Shard {
  std::size_t first = 0, step = 1;
};

/// TABLE_SHARD=I/N: case I of every N; all cases where it is not set. Anything else is an error. (The engine takes no
/// MOEGEN_ variable that it does not know.)
inline Shard table_shard() {
  const char* text = std::getenv("TABLE_SHARD");
  if (text == nullptr) return {};
  Shard shard;
  char rest = 0;
  if (std::sscanf(text, "%zu/%zu%c", &shard.first, &shard.step, &rest) != 2 || shard.first >= shard.step)
    throw std::invalid_argument("TABLE_SHARD must be I/N with 0 <= I < N");
  return shard;
}

}  // namespace moegen::test
