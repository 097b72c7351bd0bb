// SPDX-License-Identifier: Apache-2.0
// quantize on a GPU: codes and scales to the bit.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/args/quantize.h>
#include <moegen/engine.hpp>

#include "gpu/device_test.hpp"
#include "support/row_tables.hpp"
#include "support/shard.hpp"
#include "verify/memory.hpp"
#include "verify/row_values.hpp"

using namespace moegen;

TEST_CASE("quantize is right on every pair of shapes, schemes, options and inputs") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const test::QuantizeTable table({});
  REQUIRE(table.size() >= test::RowLimits{}.widths.size() * test::RowLimits{}.rows.size() / 2);
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table.size(); i += shard.step) {
    const Config config = table.config(i);
    CAPTURE(config.to_json());
    const auto wrong =
        verify::run_case(engine.get(config, i % 2 == 0 ? "quantize.up" : "quantize.down"), config, table.at(i));
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
  MESSAGE(table.size() << " cases");
}

// Bug 54 (routing facts): offsets beyond 2^32 bytes and 2^31 elements. The same 1,024 rows over and over: their codes
// must be those of the first ones wherever they lie.
TEST_CASE("rows beyond 2^31 elements") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  constexpr std::int64_t kWidth = 7168, kPeriod = 1024, kRepeats = 320, kRows = kPeriod * kRepeats;
  static_assert(kRows * kWidth > std::int64_t{1} << 31);
  const Config config =
      test::row_tables::config(kWidth, test::kRowSchemes[3], "bfloat16",
                               R"("num_experts": 8, "top_k": 2, "router": {"scoring": "softmax"})", "");
  const Kernel kernel = engine.get(config, "quantize.up");
  const verify::Tensor part = verify::row_values(Dtype::bfloat16, kPeriod, kWidth, true, 7, 1e30);
  const verify::Memory x(Target::cuda, "x", part.host.size() * kRepeats);
  for (std::int64_t i = 0; i < kRepeats; ++i) x.upload(part.host.data(), part.host.size(), i * part.host.size());
  const verify::Memory rows(Target::cuda, "rows", kRows * kWidth), scales(Target::cuda, "scales", kRows * kWidth / 32);
  rows.fill(0xFF);
  scales.fill(0xFF);
  quantize::Args args{};
  args.rows = rows.data();
  args.scales = scales.data();
  args.x = x.data();
  args.num_rows = kRows;
  verify::run_to_end(kernel, args);
  const auto download = [](const verify::Memory& memory, std::size_t bytes, std::int64_t repeat) {
    std::vector<char> copy(bytes);
    memory.download(copy.data(), bytes, static_cast<std::size_t>(repeat) * bytes);
    return copy;
  };
  const std::size_t row_bytes = kPeriod * kWidth, scale_bytes = kPeriod * kWidth / 32;
  const std::vector<char> first = download(rows, row_bytes, 0), first_scales = download(scales, scale_bytes, 0);
  CHECK(std::count(first.begin(), first.end(), first[0]) < static_cast<std::ptrdiff_t>(row_bytes / 2));
  for (std::int64_t repeat = 1; repeat < kRepeats; repeat += repeat < kRepeats - 40 ? 37 : 1) {
    CHECK(download(rows, row_bytes, repeat) == first);
    CHECK(download(scales, scale_bytes, repeat) == first_scales);
  }
}
