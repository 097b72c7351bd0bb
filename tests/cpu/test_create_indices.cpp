// SPDX-License-Identifier: Apache-2.0
// create_indices on the CPU target: the table of tests/gpu under every schedule, with every check on.
#include <doctest/doctest.h>

#include "cpu/schedules.hpp"
#include "support/indices_table.hpp"
#include "support/shard.hpp"

using namespace moegen;

namespace {

void check_case(Engine& engine, const Config& config, const verify::IndicesCase& c,
                const std::vector<CpuOptions>& schedules) {
  test::check_case(engine, config, "create_indices", c, schedules);
}

// P beyond 2,500 would take minutes.
const test::IndicesTable& table() {
  static const test::IndicesTable made({0, 1, 11, 197, 2500});
  return made;
}

}  // namespace

TEST_CASE("create_indices is right and clean on every second case of the table") {
  Engine engine = test::checked_engine();
  REQUIRE(table().size() >= test::IndicesTable::kExperts.size() * 5);
  for (std::size_t i = 0; i < table().size(); i += 2)
    check_case(engine, table().config(i), table().at(i), test::two_schedules(i / 2));
}

// Takes minutes, most of them to compile: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every case of the table under every schedule" * doctest::skip()) {
  Engine engine = test::checked_engine();
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table().size(); i += shard.step)
    check_case(engine, table().config(i), table().at(i), test::all_schedules());
  MESSAGE(table().size() << " cases");
}

// Two multiprocessors hold two blocks of a cluster, so 20,660 pairs take a cooperative grid.
TEST_CASE("create_indices as a cluster and as a cooperative grid") {
  const Config config = Config::from_json(
      R"({"moegen": 1, "name": "case", "hidden": 64, "intermediate": 64, "num_experts": 60, "top_k": 4,
          "router": {"scoring": "softmax"}, "indices": {"pad_rows_to": 16, "scales_offset": true}})");
  for (const char* arch : {"sm_90a", "sm_80"})
    for (const int num_sms : {2, 8}) {
      Engine engine = test::checked_engine(arch, num_sms);
      const auto schedules = test::all_schedules();
      for (const verify::IdPattern pattern : verify::all_id_patterns())
        check_case(engine, config, {20660, pattern, 7}, {schedules[0], schedules[3]});
    }
}
