// SPDX-License-Identifier: Apache-2.0
// A loop over the machine's cores, for references and inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace moegen::verify {

/// Calls body(begin, end) on ranges that cover [0, count), on several threads where it is worth it. `body` may not
/// throw.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t least_per_thread, const Body& body) {
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t threads = std::clamp<std::int64_t>(count / std::max<std::int64_t>(1, least_per_thread), 1, cores);
  std::vector<std::thread> workers;
  for (std::int64_t i = 1; i < threads; ++i)
    workers.emplace_back([&, i] { body(count * i / threads, count * (i + 1) / threads); });
  body(0, count / threads);
  for (std::thread& worker : workers) worker.join();
}

}  // namespace moegen::verify
