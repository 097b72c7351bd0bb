// SPDX-License-Identifier: Apache-2.0
// router on the CPU target: the table of tests/gpu with few tokens, under fair and chaotic schedules, with every check.
#include <array>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <moegen/args/router.h>
#include <moegen/error.hpp>

#include "cpu/schedules.hpp"
#include "support/router_table.hpp"
#include "support/shard.hpp"

using namespace moegen;

namespace {

const test::RouterTable& table() {
  static const test::RouterTable made({0, 1, 7, 33});
  return made;
}

}  // namespace

TEST_CASE("router keeps its rules and is clean on every twentieth case of the table") {
  Engine engine = test::checked_engine();
  REQUIRE(table().size() >= 150);
  for (std::size_t i = 0; i < table().size(); i += 20)
    test::check_case(engine, table().config(i), "router", table().at(i), test::two_schedules(i / 20));
}

// Takes minutes, most of them to compile: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every case of the table under every schedule" * doctest::skip()) {
  Engine engine = test::checked_engine();
  const test::Shard shard = test::table_shard();
  for (std::size_t i = shard.first; i < table().size(); i += shard.step)
    test::check_case(engine, table().config(i), "router", table().at(i), test::all_schedules());
  MESSAGE(table().size() << " cases");
}

TEST_CASE("ordinary rows choose many experts, so that the table can tell right from wrong") {
  const Config config = Config::from_json(R"({"moegen": 1, "name": "many", "hidden": 64, "intermediate": 64,
      "num_experts": 64, "top_k": 8, "router": {"scoring": "softmax"}})");
  Engine engine = test::checked_engine();
  const Kernel kernel = engine.get(config, "router");
  const verify::RouterProblem problem(Target::cpu, config, {.num_tokens = 64, .seed = 3});
  problem.reset();
  verify::run_to_end(kernel, problem.args());
  const std::vector<std::int32_t> ids = problem.ids();
  CHECK(std::set<std::int32_t>(ids.begin(), ids.end()).size() == 64);
}

TEST_CASE("wrong arguments are refused by name") {
  Engine engine = test::checked_engine();
  const Config config = Config::from_json(R"({"moegen": 1, "name": "args", "hidden": 64, "intermediate": 64,
      "num_experts": 64, "top_k": 2, "router": {"scoring": "none", "bias": "float32", "hash": {"vocab": 5},
      "scores": "logit * gain", "inputs": {"gain": {"shape": "experts"}}}})");
  const Kernel kernel = engine.get(config, "router");
  alignas(16) std::array<float, 4> memory{};
  router::Args args{};
  const auto refusal = [&]() -> std::string {
    try {
      kernel.run(args, nullptr);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::config);
      return std::string(error.what()).substr(std::string(error.what()).find(": ") + 2);
    }
    return "";
  };
  CHECK(refusal() == "");  // no tokens: nothing is looked at
  args.num_tokens = -1;
  CHECK(refusal() == "num_tokens is negative; allowed 0 .. 2^31 - 1");
  args.num_tokens = std::int64_t{1} << 31;
  CHECK(refusal() == "num_tokens is too large; allowed 0 .. 2^31 - 1");
  args.num_tokens = 1;
  CHECK(refusal() == "expert_indices is null; it takes int32 [num_tokens, top_k + shared slots]");
  args.expert_indices = reinterpret_cast<std::int32_t*>(memory.data());
  CHECK(refusal() == "expert_weights is null; it takes router.weights [num_tokens, top_k + shared slots]");
  args.expert_weights = reinterpret_cast<char*>(memory.data()) + 1;
  CHECK(refusal() == "expert_weights is not aligned to its element");
  args.expert_weights = memory.data();
  CHECK(refusal() == "logits is null; it takes router.logits [num_tokens, experts]");
  args.logits = memory.data();
  args.row_stride = 63;
  CHECK(refusal() ==
        "row_stride is below num_experts + num_zero_experts; it is the distance of two rows of logits, in elements");
  args.row_stride = 64;
  CHECK(refusal() == "an input of router.scores is null; inputs[i] is its i-th named input");
  args.inputs[0] = memory.data();
  CHECK(refusal() == "token_ids is null; with hash routing it takes router.hash.token_id [num_tokens]");
  args.token_ids = memory.data();
  CHECK(refusal() == "table is null; with hash routing it takes int32 [vocab, top_k]");
}
