// SPDX-License-Identifier: Apache-2.0
// finalize on the CPU target: the table of tests/gpu with narrow rows, under every schedule, with every check on.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "cpu/schedules.hpp"
#include "support/finalize_table.hpp"
#include "support/shard.hpp"
#include "verify/scale.hpp"

using namespace moegen;

namespace {

void check_case(Engine& engine, const Config& full, const verify::FinalizeCase& c,
                const std::vector<CpuOptions>& schedules) {
  test::check_case(engine, verify::scaled_for_cpu(full).config, "finalize", c, schedules);
}

// Widths are those that narrow rows have; more tokens and rows gigabytes apart are tests/gpu's: they would take minutes
// here and reach no other code.
const test::FinalizeTable& table() {
  static const test::FinalizeTable made({.widths = {384, 448}, .num_tokens = {0, 1, 7, 33}, .sparse = false});
  return made;
}

}  // namespace

TEST_CASE("finalize is right and clean on every fifth case of the table") {
  Engine engine = test::checked_engine();
  REQUIRE(table().size() >= test::FinalizeTable::kTopKs * test::FinalizeTable::kOptions.size());
  for (std::size_t i = 0; i < table().size(); i += 5)
    check_case(engine, table().config(i), table().at(i), test::two_schedules(i / 5));
}

// Takes minutes, most of them to compile: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every case of the table under every schedule" * doctest::skip()) {
  Engine engine = test::checked_engine();
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table().size(); i += shard.step)
    check_case(engine, table().config(i), table().at(i), test::all_schedules());
  MESSAGE(table().size() << " cases");
}

TEST_CASE("the shapes of the 17 configs are narrowed to those widths") {
  for (const int width : test::FinalizeLimits{}.widths) {
    const Config full = Config::from_json(fmt::format(
        R"({{"moegen": 1, "name": "case", "hidden": {}, "intermediate": 1024, "num_experts": 64, "top_k": 1,
             "router": {{"scoring": "softmax"}}}})",
        width));
    const std::int64_t narrow = verify::scaled_for_cpu(full).config->hidden;
    CHECK((narrow == 384 || narrow == 448));
    CHECK(narrow % 128 == width % 128);
  }
}

TEST_CASE("every triple of dtypes") {
  Engine engine = test::checked_engine();
  for (std::size_t i = 0; i < test::FinalizeTable::kNumDtypeTriples; ++i)
    check_case(engine, test::FinalizeTable::dtype_triple(i), {129, verify::RowPattern::dropped, 77 + i},
               {test::all_schedules().front()});
}
