// SPDX-License-Identifier: Apache-2.0
// The references themselves, against examples worked by hand and against the processor's own conversions.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "reference/create_indices.hpp"
#include "reference/finalize.hpp"
#include "reference/number.hpp"
#include "reference/router.hpp"
#include "support/pairwise.hpp"

namespace {

using namespace moegen;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

ConfigFields fields_of(const std::string& indices) {
  return Config::from_json(R"({"moegen": 1, "name": "n", "hidden": 8, "intermediate": 64, "num_experts": 4, "top_k": 2,
                              "router": {"scoring": "softmax"}, "indices": {)" +
                           indices + "}}")
      .fields();
}

}  // namespace

TEST_CASE("create_indices of seven pairs") {
  const auto out = reference::create_indices(fields_of(""), {2, 0, 2, -1, 3, 0, 2});
  CHECK(out.token_expert_order == Words{1, 5, 0, 2, 6, 4, kNone});
  CHECK(out.restore_token_order == Words{2, 0, 3, kNone, 5, 1, 4});
  CHECK(out.expert_start_indices == Words{0, 2, 5, 6, 6});
  CHECK(out.expert_ids == std::vector<std::int32_t>{0, 2, 3, -1});
  CHECK(out.expert_usage_stats == Words{3, 3});
}

TEST_CASE("create_indices with padding, all experts and scale blocks") {
  const auto out =
      reference::create_indices(fields_of(R"("pad_rows_to": 4, "experts": "all", "scales_offset": true)"), {1, 1, 3});
  CHECK(out.expert_start_indices == Words{0, 0, 4, 4, 8});
  CHECK(out.token_expert_order.size() == 3 + 4 * 3);
  CHECK(out.token_expert_order[1] == 1);
  CHECK(out.token_expert_order[2] == kNone);
  CHECK(out.token_expert_order[4] == 2);
  CHECK(out.scales_offset == Words{0, 0, 1, 1});
}

TEST_CASE("create_indices of a local range") {
  const auto out =
      reference::create_indices(fields_of(R"("first_expert": 1, "num_local_experts": 2)"), {0, 1, 2, 3, 2});
  CHECK(out.restore_token_order == Words{kNone, 0, 1, kNone, 2});
  CHECK(out.expert_ids == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("a router's score that float32 cannot hold comes last, and near the limit nothing is claimed") {
  const ConfigFields fields =
      Config::from_json(R"({"moegen": 1, "name": "n", "hidden": 8, "intermediate": 64, "num_experts": 4, "top_k": 2,
                            "router": {"scoring": "none", "scores": "logit * 4", "normalize": false}})")
          .fields();
  const float limit = std::numeric_limits<float>::max() / 4;
  const std::vector<float> logits = {3e38F, 1, -2e38F, limit};
  reference::RouterInputs inputs;
  inputs.logits = logits.data();
  inputs.row_stride = 4;
  const reference::RouterRow row = reference::route(fields, inputs, 0);
  CHECK_FALSE(row.experts[0].finite);
  CHECK_FALSE(row.experts[2].finite);
  CHECK(reference::comes_before(row, 1, 0));
  CHECK_FALSE(reference::comes_before(row, 0, 1));
  CHECK(reference::comes_before(row, 0, 2));
  for (const int other : {0, 1, 2}) {
    CHECK_FALSE(reference::comes_before(row, other, 3));
    CHECK_FALSE(reference::comes_before(row, 3, other));
  }
  CHECK(std::isinf(reference::router_weights(fields, inputs, row, {1, 3})[1].error));
}

TEST_CASE("16-bit floats are converted as the processor converts them") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    _Float16 native;
    std::memcpy(&native, &half, 2);
    const double value = reference::load(Dtype::float16, &half, 0);
    if (std::isnan(value)) continue;
    CHECK(value == static_cast<double>(native));
    std::uint16_t back = 0;
    reference::store(Dtype::float16, &back, 0, value);
    REQUIRE(back == half);
    if ((bits & 0x7FFF) >= 0x7BFF) continue;
    const double next = value + reference::half_ulp(Dtype::float16, value) * (value < 0 ? -1 : 1);
    const auto rounded = static_cast<_Float16>(next);  // a tie: to even
    reference::store(Dtype::float16, &back, 0, next);
    std::memcpy(&native, &back, 2);
    REQUIRE(native == rounded);
  }
}

TEST_CASE("bfloat16 rounds to nearest even") {
  std::uint16_t bits = 0;
  reference::store(Dtype::bfloat16, &bits, 0, 1.0 + 1.0 / 256);
  CHECK(bits == 0x3F80);
  reference::store(Dtype::bfloat16, &bits, 0, 1.0 + 3.0 / 256);
  CHECK(bits == 0x3F82);
  reference::store(Dtype::bfloat16, &bits, 0, std::nan(""));
  CHECK(bits == 0x7FFF);
}

TEST_CASE("float8_e4m3fn rounds to nearest even and saturates") {
  const auto code = [](double value) {
    std::uint8_t bits = 0;
    reference::store(Dtype::float8_e4m3fn, &bits, 0, value);
    return int{bits};
  };
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    const double value = reference::load(Dtype::float8_e4m3fn, &byte, 0);
    if ((bits & 0x7F) == 0x7F)
      CHECK(std::isnan(value));
    else
      CHECK(code(value) == bits);
    if ((bits & 0x7F) >= 0x7E) continue;
    const auto above = static_cast<std::uint8_t>(bits + 1);  // a tie goes to the even code
    CHECK(code((value + reference::load(Dtype::float8_e4m3fn, &above, 0)) / 2) == (bits % 2 == 0 ? bits : bits + 1));
  }
  CHECK(code(448) == 0x7E);
  CHECK(code(1e9) == 0x7E);
  CHECK(code(-HUGE_VAL) == 0xFE);
  CHECK(code(std::nan("")) == 0x7F);
  CHECK(code(std::ldexp(1.0, -9)) == 1);
  CHECK(code(std::ldexp(1.0, -10)) == 0);
  CHECK(reference::half_ulp(Dtype::float8_e4m3fn, 1.0) == 0.0625);
}

TEST_CASE("float8_e8m0fnu rounds up to a power of two") {
  const auto code = [](double value) {
    std::uint8_t bits = 0;
    reference::store(Dtype::float8_e8m0fnu, &bits, 0, value);
    return int{bits};
  };
  for (int bits = 0; bits < 255; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    CHECK(reference::load(Dtype::float8_e8m0fnu, &byte, 0) == std::ldexp(1.0, bits - 127));
    CHECK(code(std::ldexp(1.0, bits - 127)) == bits);
    if (bits < 254) CHECK(code(std::ldexp(1.0 + 1e-9, bits - 127)) == bits + 1);
  }
  CHECK(code(0) == 0);
  CHECK(code(1e300) == 254);
  CHECK(code(std::nan("")) == 255);
}

TEST_CASE("finalize of one token by hand") {
  const Config config = Config::from_json(
      R"({"moegen": 1, "name": "n", "hidden": 8, "intermediate": 64, "num_experts": 4, "top_k": 2,
          "router": {"scoring": "softmax"}, "finalize": {"down": "float32", "output": "float32", "epilogue": "value + col"}})");
  std::vector<float> down(24, 1.0f);
  std::fill(down.begin() + 16, down.end(), 3.0f);
  const std::vector<std::uint32_t> restore = {2, kNone};
  const std::vector<float> weights = {0.5f, NAN};
  reference::FinalizeInputs inputs;
  inputs.down = down.data();
  inputs.restore = restore.data();
  inputs.weights = weights.data();
  reference::FinalizeRow row;
  reference::finalize_row(config.fields(), inputs, 0, row);
  for (int h = 0; h < 8; ++h) CHECK(row.value[static_cast<std::size_t>(h)] == 1.5 + h);
  CHECK(row.error[0] > 0);
  CHECK(row.error[0] < 1e-4);
}

TEST_CASE("a covering array holds every allowed pair") {
  const auto allowed = [](const test::Choice& c) { return c[0] != 1 || c[2] != 2; };
  const auto cases = test::pairwise({3, 4, 5}, allowed);
  CHECK(cases.size() < 60);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 5; ++j) {
      const bool found = std::any_of(cases.begin(), cases.end(), [&](const auto& c) { return c[0] == i && c[2] == j; });
      CHECK(found == (i != 1 || j != 2));
    }
}
