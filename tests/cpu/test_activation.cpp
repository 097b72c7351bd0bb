// SPDX-License-Identifier: Apache-2.0
// activation on the CPU target: every kind, layout and epilogue, stored in every way, under fair and chaotic schedules,
// with every check on.
#include <string>

#include <doctest/doctest.h>

#include <moegen/args/activation.h>
#include <moegen/error.hpp>

#include "cpu/schedules.hpp"
#include "support/row_tables.hpp"
#include "support/shard.hpp"

using namespace moegen;

namespace {

using Table = test::ActivationTable;

const Table& table() {
  static const Table made({.widths = {8, 16, 32, 96, 144, 704, 1056, 2080, 4128, 33024},
                           .rows = {0, 1, 2, 31, 65},
                           .most_elements = 1'200'000});
  return made;
}

}  // namespace

// The i-th kind is stored as the i-th scheme says, so that both lists are gone through.
TEST_CASE("every activation is right and clean on rows of every kind") {
  Engine engine = test::checked_engine();
  for (std::size_t i = 0; i < Table::kActivations.size(); ++i) {
    const test::RowScheme& scheme = test::kRowSchemes[i % 10];
    const std::string_view dtype = test::kRowDtypes[scheme.weight.empty() ? i % 2 : i % 3];
    const Config config = Table::one(160, scheme, dtype, Table::kActivations[i], Table::kEpilogues[i % 3]);
    CAPTURE(scheme.name);
    test::check_case(engine, config, "activation", verify::ActivationCase{21, verify::RowsPattern::hostile, 5 + i},
                     {test::all_schedules()[i % 9]});
  }
}

// Takes minutes, most of them to compile: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every case of the table under every schedule" * doctest::skip()) {
  Engine engine = test::checked_engine();
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table().size(); i += shard.step)
    test::check_case(engine, table().config(i), "activation", table().at(i), test::all_schedules());
  MESSAGE(table().size() << " cases");
}

TEST_CASE("wrong arguments are refused by name") {
  Engine engine = test::checked_engine();
  const Kernel kernel = engine.get(
      Table::one(64, test::kRowSchemes[0], "bfloat16", Table::kActivations[5], Table::kEpilogues[2]), "activation");
  alignas(16) static char memory[64];
  activation::Args args{};
  kernel.run(args, nullptr);  // no rows: nothing is looked at, nothing is launched
  const auto refused = [&](const char* sentence) {
    CHECK_THROWS_WITH_AS(kernel.run(args, nullptr), doctest::Contains(sentence), Error);
  };
  args.num_rows = 1;
  refused("up is null; it takes dtypes.activation [num_rows, columns of the up projection]");
  args.up = memory;
  refused("expert_start_indices is null; it takes uint32 [num_groups + 1]");
  args.expert_start_indices = reinterpret_cast<std::uint32_t*>(memory);
  refused("expert_ids is null; it takes int32 [num_groups]");
  args.expert_ids = reinterpret_cast<std::int32_t*>(memory);
  refused("num_groups is out of range; allowed 1 .. 2^31 - 1");
  args.num_groups = 9;
  refused("limits is null; it takes float32 [num_groups of the config]");
  args.limits = reinterpret_cast<float*>(memory);
  refused("an input of experts.up_epilogue is null; inputs[i] is its i-th named input");
  for (const void*& input : args.inputs) input = memory;
  args.rows = memory;
  args.scales = memory;
  refused("scales is given, but the rows of this kernel have none; it must be null");
}
