// SPDX-License-Identifier: Apache-2.0
// quantize on the CPU target: every scheme on rows of every kind, under fair and chaotic schedules, with every check
// on.
#include <string>

#include <doctest/doctest.h>

#include <moegen/args/quantize.h>
#include <moegen/error.hpp>

#include "cpu/schedules.hpp"
#include "support/row_tables.hpp"
#include "support/shard.hpp"

using namespace moegen;

namespace {

// 2,160 elements: 135 vectors of 16, so five warps a row and a last block of 112; 67.5 vectors of 32 do not fit, 2,144
// do.
Config config_of(const test::RowScheme& scheme, std::string_view dtype) {
  return test::row_tables::config(scheme.step == 32 ? 2144 : 2160, scheme, dtype,
                                  R"("num_experts": 8, "top_k": 2, "router": {"scoring": "softmax"})", "");
}

const test::QuantizeTable& table() {
  static const test::QuantizeTable made(
      {.widths = {16, 32, 96, 144, 704, 1056, 2080, 4128, 33024}, .rows = {0, 1, 2, 31, 65}, .most_elements = 300'000});
  return made;
}

}  // namespace

TEST_CASE("every scheme is exact and clean on rows of every kind") {
  Engine engine = test::checked_engine();
  for (std::size_t i = 1; i < test::kRowSchemes.size(); ++i) {
    const Config config = config_of(test::kRowSchemes[i], test::kRowDtypes[i % 3]);
    CAPTURE(test::kRowSchemes[i].name);
    test::check_case(engine, config, "quantize.down", verify::QuantizeCase{20, verify::RowsPattern::hostile, 5 + i},
                     test::two_schedules(i));
    test::check_case(engine, config, "quantize.down", verify::QuantizeCase{13, verify::RowsPattern::bounded, 50 + i},
                     {test::all_schedules().front()});
  }
}

// Takes minutes, most of them to compile: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every case of the table under every schedule" * doctest::skip()) {
  Engine engine = test::checked_engine();
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table().size(); i += shard.step)
    test::check_case(engine, table().config(i), i % 2 == 0 ? "quantize.up" : "quantize.down", table().at(i),
                     test::all_schedules());
  MESSAGE(table().size() << " cases");
}

TEST_CASE("wrong arguments are refused by name") {
  Engine engine = test::checked_engine();
  const Kernel kernel = engine.get(config_of(test::kRowSchemes[4], "bfloat16"), "quantize.up");
  alignas(16) static char memory[64];
  quantize::Args args{};
  kernel.run(args, nullptr);  // no rows: nothing is looked at, nothing is launched
  const auto refused = [&](const char* sentence) {
    CHECK_THROWS_WITH_AS(kernel.run(args, nullptr), doctest::Contains(sentence), Error);
  };
  args.num_rows = -1;
  refused("num_rows is negative; it must be 0 or more");
  args.num_rows = std::int64_t{1} << 31;
  refused("num_rows is too large; allowed 0 .. 2^31 - 1");
  args.num_rows = 5;
  refused("x is null; it takes dtypes.activation [num_rows, width]");
  args.x = memory + 8;
  refused("rows is null; it takes the rows that the kernel writes");
  args.rows = memory + 4;
  refused("rows is not aligned to 16 bytes");
  args.rows = memory;
  refused("the rows that are read are not aligned to 16 bytes");
  args.x = memory;
  args.global_scale = reinterpret_cast<float*>(memory);
  refused("global_scale is given, but only the schemes tensor and nvfp4 have one; it must be null");
  args.global_scale = nullptr;
  refused("scales is null; it takes the scales of the rows (quantize::Args says their shape)");
  args.scales = memory + 4;
  refused("scales of the column layout are not aligned to 16 bytes");
  args.scales = memory;
  args.scales_stride = 4;
  refused("scales_stride is less than num_rows; 0 rounds num_rows up");
  args.scales_stride = 6;
  refused("scales_stride is no multiple of 16 bytes; 0 rounds num_rows up");
}

TEST_CASE("a scheme that quantises no rows has no quantize kernels") {
  Engine engine = test::checked_engine();
  const Config config = test::row_tables::config(
      64, test::kRowSchemes[0], "bfloat16", R"("num_experts": 8, "top_k": 2, "router": {"scoring": "softmax"})", "");
  CHECK_THROWS_WITH_AS(engine.get(config, "quantize.up"), doctest::Contains("no kernel 'quantize.up' in this config"),
                       Error);
}
