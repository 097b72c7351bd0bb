// SPDX-License-Identifier: Apache-2.0
// permute on a GPU: every token in all of its rows, to the bit.
#include <doctest/doctest.h>

#include <moegen/engine.hpp>

#include "gpu/device_test.hpp"
#include "support/row_tables.hpp"
#include "support/shard.hpp"

using namespace moegen;

TEST_CASE("permute is right on every pair of shapes, schemes, options and inputs") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const test::PermuteTable table({});
  REQUIRE(table.size() >= test::RowLimits{}.widths.size() * test::RowLimits{}.rows.size() / 2);
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table.size(); i += shard.step) {
    const Config config = table.config(i);
    CAPTURE(config.to_json());
    const auto wrong = verify::run_case(engine.get(config, "permute"), config, table.at(i));
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
  MESSAGE(table.size() << " cases");
}
