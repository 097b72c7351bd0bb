// SPDX-License-Identifier: Apache-2.0
// finalize on a GPU against the float64 reference: a pairwise table over shapes, top_k, dtypes, options and inputs.
#include <string>

#include <doctest/doctest.h>

#include <moegen/args/finalize.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "gpu/device_test.hpp"
#include "support/finalize_table.hpp"
#include "verify/finalize_case.hpp"

using namespace moegen;

TEST_CASE("finalize stays within its bound of the reference on every pair of options") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  using Table = test::FinalizeTable;
  const Table table({});
  REQUIRE(table.size() >= test::FinalizeLimits{}.widths.size() * Table::kTopKs);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Config config = table.config(i);
    CAPTURE(config.to_json());
    const auto wrong = verify::run_case(engine.get(config, "finalize"), config, table.at(i));
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
  MESSAGE(table.size() << " cases");
}

TEST_CASE("every triple of dtypes") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  for (std::size_t i = 0; i < test::FinalizeTable::kNumDtypeTriples; ++i) {
    const Config config = test::FinalizeTable::dtype_triple(i);
    CAPTURE(config.to_json());
    const auto wrong =
        verify::run_case(engine.get(config, "finalize"), config, {129, verify::RowPattern::dropped, 77 + i});
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
}

TEST_CASE("wrong arguments are refused by name") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const Config config = test::FinalizeTable::with_residual();
  const Kernel kernel = engine.get(config, "finalize");
  const cuda::Stream stream;
  const cuda::DeviceBuffer memory(1 << 20);
  finalize::Args args{};
  args.num_tokens = 0;
  kernel.run(args, stream.get());  // no work: nothing is looked at, nothing is launched
  args.num_tokens = 1;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("output is null"), Error);
  args.output = memory.data();
  args.down = memory.data<char>() + 8;
  args.residual = memory.data();
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("not aligned to 16 bytes"), Error);
}
