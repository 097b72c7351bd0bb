// SPDX-License-Identifier: Apache-2.0
// tests/support/router_bugs.cpp on the CPU target. Without checks, for time: the table of test_router.cpp has them.
#include "support/router_run.hpp"

using namespace moegen;

Engine& test::router_engine() {
  static Engine engine = [] {
    EngineOptions options = EngineOptions::from_environment();
    options.cache_dir.clear();
    options.target = Target::cpu;
    return Engine(options);
  }();
  return engine;
}
