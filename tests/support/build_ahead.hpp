// SPDX-License-Identifier: Apache-2.0
// Many kernels, compiled on all cores before the first of them is run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>

namespace moegen::test {

/// Compiles `plan_of(i)` for all i below `count`, so that Engine::get finds them. A failure fails the test, which goes
/// on.
template <class PlanOf>
void build_ahead(Engine& engine, std::size_t count, const PlanOf& plan_of) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        engine.build(plan_of(i));
      } catch (const Error& error) {
        const std::scoped_lock lock(mutex);
        failures.push_back(fmt::format("{}: {}", i, error.what()));
      }
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  for (const std::string& failure : failures) FAIL_CHECK(failure);
}

}  // namespace moegen::test
