// SPDX-License-Identifier: Apache-2.0
// Many kernels of grouped_matmul, compiled on all cores before the first of them is run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "support/grouped_matmul_table.hpp"

namespace moegen::test {

/// Compiles all kernels of `tests`, so that Engine::get finds them; leaves out what this version refuses as unsupported
/// (other tests read what it says), but not everything. Any other failure to compile fails the test, which goes on.
inline std::vector<MatmulTest> prepare(Engine& engine, const Arch& arch, std::vector<MatmulTest> tests) {
  std::vector<char> there(tests.size(), 0);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (std::size_t i = next++; i < tests.size(); i = next++) {
      try {
        engine.build(make_plan(tests[i].config, tests[i].kernel, arch));
        there[i] = 1;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::unsupported) continue;
        const std::scoped_lock lock(mutex);
        failures.push_back(fmt::format("{}\n{}", error.what(), tests[i].config.to_json()));
      }
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  for (const std::string& failure : failures) FAIL_CHECK(failure);
  std::vector<MatmulTest> kept;
  for (std::size_t i = 0; i < tests.size(); ++i)
    if (there[i] != 0) kept.push_back(std::move(tests[i]));
  REQUIRE(!kept.empty());
  return kept;
}

}  // namespace moegen::test
