// SPDX-License-Identifier: Apache-2.0
// The schedules that every kernel is run under on the CPU target: fair, and chaos with eight seeds; and a case under
// them.
#pragma once

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/cpu_target.hpp>
#include <moegen/engine.hpp>

#include "verify/finalize_case.hpp"
#include "verify/indices_case.hpp"
#include "verify/router_case.hpp"

namespace moegen::test {

inline std::vector<CpuOptions> all_schedules() {
  std::vector<CpuOptions> all(1);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CpuOptions chaos;
    chaos.schedule = Schedule::chaos;
    chaos.async_timing = AsyncTiming::random;
    chaos.seed = seed;
    all.push_back(chaos);
  }
  return all;
}

/// Fair, and one seed of chaos: over a table, all of them.
inline std::vector<CpuOptions> two_schedules(std::size_t index) {
  const std::vector<CpuOptions> all = all_schedules();
  return {all[0], all[1 + index % 8]};
}

/// An Engine on the CPU target with checks on, and the default cache.
inline Engine checked_engine(const char* arch = "sm_90a", int num_sms = 16) {
  EngineOptions options = EngineOptions::from_environment();
  options.cache_dir.clear();
  options.target = Target::cpu;
  options.cpu.check = true;
  options.cpu.arch = arch;
  options.cpu.num_sms = num_sms;
  return Engine(options);
}

/// `kernel` of `config` on the case, under each of `schedules`; what goes wrong fails the test with its report.
template <class Case>
void check_case(Engine& engine, const Config& config, const char* name, const Case& c,
                const std::vector<CpuOptions>& schedules) {
  CAPTURE(config.to_json());
  const Kernel kernel = engine.get(config, name);
  for (const CpuOptions& schedule : schedules) {
    CAPTURE(schedule.seed);
    try {
      const auto wrong = run_case(with_schedule(kernel, schedule), config, c);
      CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
    } catch (const KernelError& error) {
      FAIL_CHECK(error.text());
    }
  }
}

}  // namespace moegen::test
