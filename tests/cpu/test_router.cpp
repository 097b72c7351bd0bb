// SPDX-License-Identifier: Apache-2.0
// router on the CPU target: the table of tests/gpu with few tokens, under fair and chaotic schedules, with every check.
#include <set>

#include <doctest/doctest.h>

#include "cpu/schedules.hpp"
#include "support/router_table.hpp"

using namespace moegen;

namespace {

const test::RouterTable& table() {
  static const test::RouterTable made({0, 1, 7, 33});
  return made;
}

}  // namespace

TEST_CASE("router keeps its rules and is clean on every twentieth case of the table") {
  Engine engine = test::checked_engine();
  REQUIRE(table().size() >= 150);
  for (std::size_t i = 0; i < table().size(); i += 20)
    test::check_case(engine, table().config(i), "router", table().at(i), test::two_schedules(i / 20));
}

// Takes minutes, most of them to compile: --no-skip.
TEST_CASE("every case of the table under every schedule" * doctest::skip()) {
  Engine engine = test::checked_engine();
  for (std::size_t i = 0; i < table().size(); ++i)
    test::check_case(engine, table().config(i), "router", table().at(i), test::all_schedules());
  MESSAGE(table().size() << " cases");
}

TEST_CASE("ordinary rows choose many experts, so that the table can tell right from wrong") {
  const Config config = Config::from_json(R"({"moegen": 1, "name": "many", "hidden": 64, "intermediate": 64,
      "num_experts": 64, "top_k": 8, "router": {"scoring": "softmax"}})");
  Engine engine = test::checked_engine();
  const Kernel kernel = engine.get(config, "router");
  const verify::RouterProblem problem(Target::cpu, config, {.num_tokens = 64, .seed = 3});
  problem.reset();
  verify::run_to_end(kernel, problem.args());
  const std::vector<std::int32_t> ids = problem.ids();
  CHECK(std::set<std::int32_t>(ids.begin(), ids.end()).size() == 64);
}
