// SPDX-License-Identifier: Apache-2.0
// finalize on the CPU target: the table of tests/gpu with narrow rows, under every schedule, with every check on.
#include <doctest/doctest.h>

#include <moegen/error.hpp>

#include "cpu/schedules.hpp"
#include "support/finalize_table.hpp"
#include "verify/finalize_case.hpp"
#include "verify/scale.hpp"

using namespace moegen;

namespace {

void check_case(Engine& engine, const Config& full, const verify::FinalizeCase& c,
                const std::vector<CpuOptions>& schedules) {
  const Config config = verify::scaled_for_cpu(full).config;
  CAPTURE(config.to_json());
  const Kernel kernel = engine.get(config, "finalize");
  for (const CpuOptions& schedule : schedules) {
    CAPTURE(schedule.seed);
    try {
      const auto wrong = verify::run_case(with_schedule(kernel, schedule), config, c);
      CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
    } catch (const KernelError& error) {
      FAIL_CHECK(error.text());
    }
  }
}

}  // namespace

// More tokens, wide rows and rows gigabytes apart are tests/gpu's: they would take minutes here and reach no other
// code.
TEST_CASE("finalize is right and clean on every pair of options, under every schedule") {
  Engine engine = test::checked_engine();
  const test::FinalizeTable table({.num_tokens = {0, 1, 7, 33}, .sparse = false});
  REQUIRE(table.size() >= test::FinalizeTable::kWidths.size() * test::FinalizeTable::kTopKs);
  const auto schedules = test::all_schedules();
  for (std::size_t i = 0; i < table.size(); ++i) check_case(engine, table.config(i), table.at(i), schedules);
  MESSAGE(table.size() << " cases");
}

TEST_CASE("every triple of dtypes") {
  Engine engine = test::checked_engine();
  for (std::size_t i = 0; i < test::FinalizeTable::kNumDtypeTriples; ++i)
    check_case(engine, test::FinalizeTable::dtype_triple(i), {129, verify::RowPattern::dropped, 77 + i},
               {test::all_schedules().front()});
}
