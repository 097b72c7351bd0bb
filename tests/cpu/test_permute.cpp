// SPDX-License-Identifier: Apache-2.0
// permute on the CPU target: every scheme, padding and weights, under fair and chaotic schedules, with every check on.
#include <string>

#include <doctest/doctest.h>

#include <moegen/args/permute.h>
#include <moegen/error.hpp>

#include "cpu/schedules.hpp"
#include "support/row_tables.hpp"
#include "support/shard.hpp"

using namespace moegen;

namespace {

using Table = test::PermuteTable;

const Table& table() {
  static const Table made(
      {.widths = {8, 16, 32, 96, 144, 704, 1056, 2080, 4128}, .rows = {0, 1, 2, 31, 65}, .most_elements = 12'000'000});
  return made;
}

}  // namespace

// The i-th scheme goes with options in turn, so that all lists are gone through.
TEST_CASE("every scheme is exact and clean, with and without padding and weights") {
  Engine engine = test::checked_engine();
  for (std::size_t i = 0; i < test::kRowSchemes.size(); ++i) {
    const test::RowScheme& scheme = test::kRowSchemes[i];
    const std::string_view dtype = test::kRowDtypes[scheme.weight.empty() ? i % 2 : i % 3];
    const Config config = Table::one(i % 6 == 0 || i % 6 == 5 ? 1056 : 160, scheme, dtype, Table::kTopKs[i % 5],
                                     Table::kIndices[i % 6], Table::kWeights[i % 4], i % 3 == 1);
    CAPTURE(scheme.name);
    for (const verify::IdPattern ids : {verify::IdPattern::uniform, verify::IdPattern::hostile})
      test::check_case(engine, config, "permute", verify::PermuteCase{21, ids, verify::RowsPattern::hostile, 5 + i},
                       test::two_schedules(i));
  }
}

// Takes minutes, most of them to compile: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every case of the table under every schedule" * doctest::skip()) {
  Engine engine = test::checked_engine();
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table().size(); i += shard.step)
    test::check_case(engine, table().config(i), "permute", table().at(i), test::all_schedules());
  MESSAGE(table().size() << " cases");
}

TEST_CASE("wrong arguments are refused by name") {
  Engine engine = test::checked_engine();
  const Kernel kernel = engine.get(
      Table::one(64, test::kRowSchemes[1], "bfloat16", 2, Table::kIndices[1], Table::kWeights[2]), "permute");
  alignas(16) static char memory[64];
  auto* words = reinterpret_cast<std::uint32_t*>(memory);
  permute::Args args{};
  kernel.run(args, nullptr);  // no tokens: nothing is looked at, nothing is launched
  const auto refused = [&](const char* sentence) {
    CHECK_THROWS_WITH_AS(kernel.run(args, nullptr), doctest::Contains(sentence), Error);
  };
  args.num_tokens = -1;
  refused("num_tokens is negative; it must be 0 or more");
  args.num_tokens = std::int64_t{1} << 30;
  refused("num_tokens is too large; num_tokens * slots must stay below 2^31");
  args.num_tokens = 1;
  refused("x is null; it takes dtypes.activation [num_tokens, expert_hidden]");
  args.x = memory;
  refused("restore is null; it takes uint32 [num_tokens * slots]");
  args.restore = words;
  refused("order is null; with padded rows it takes uint32 [order_capacity]");
  args.order = words;
  refused("expert_start_indices is null; with padded rows it takes uint32 [num_groups + 1]");
  args.expert_start_indices = words;
  refused("weights is null; with experts.weights_on_input it takes router.weights [num_tokens, slots]");
  args.weights = memory + 1;
  refused("weights is not aligned to its element");
  args.weights = memory;
  args.rows = memory;
  refused("global_scale is null; it takes float32 [1], the scale (tensor) or the factor of all scales (nvfp4)");
}
