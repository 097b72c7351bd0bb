// SPDX-License-Identifier: Apache-2.0
// create_indices on a GPU against the plain reference, exactly: a pairwise table over every option and hostile input.
#include <string>

#include <doctest/doctest.h>

#include <moegen/args/create_indices.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "gpu/device_test.hpp"
#include "reference/create_indices.hpp"
#include "support/indices_table.hpp"
#include "verify/indices_case.hpp"

using namespace moegen;

TEST_CASE("create_indices equals the reference on every pair of options") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  using Table = test::IndicesTable;
  const Table table({Table::kPairs.begin(), Table::kPairs.end()});
  REQUIRE(table.size() >= Table::kExperts.size() * Table::kPairs.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Config config = table.config(i);
    CAPTURE(config.to_json());
    const auto wrong = verify::run_case(engine.get(config, "create_indices"), config, table.at(i));
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
  MESSAGE(table.size() << " cases");
}

TEST_CASE("the inputs and references of the table are not trivial") {
  const Config config = Config::from_json(
      R"({"moegen": 1, "name": "case", "hidden": 64, "intermediate": 64, "num_experts": 8, "top_k": 1,
          "router": {"scoring": "softmax"}})");
  const auto ids = verify::make_ids(config.fields(), {10000, verify::IdPattern::hostile, 3});
  CHECK(std::count(ids.begin(), ids.end(), -1) > 100);
  const auto uniform = verify::make_ids(config.fields(), {10000, verify::IdPattern::uniform, 3});
  const reference::Indices want = reference::create_indices(config.fields(), uniform);
  CHECK(want.expert_usage_stats[1] == 8);
  CHECK(want.expert_start_indices.back() == 10000);
}

TEST_CASE("1000 graph replays with changing ids give right results") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const Config config = Config::from_json(
      R"({"moegen": 1, "name": "case", "hidden": 64, "intermediate": 64, "num_experts": 256, "top_k": 8,
          "router": {"scoring": "softmax"}})");
  const Kernel kernel = engine.get(config, "create_indices");
  const cuda::Stream stream;
  constexpr std::int64_t kCount = 4096;
  const cuda::DeviceBuffer ids(4 * kCount), order(4 * kCount), starts(4 * 257), restore(4 * kCount), experts(4 * 256),
      stats(8);
  create_indices::Args args{};
  args.topk_ids = ids.data();
  args.token_expert_order = order.data<std::uint32_t>();
  args.expert_start_indices = starts.data<std::uint32_t>();
  args.restore_token_order = restore.data<std::uint32_t>();
  args.expert_ids = experts.data<std::int32_t>();
  args.expert_usage_stats = stats.data<std::uint32_t>();
  args.num_pairs = kCount;
  const cuda::DeviceBuffer workspace(kernel.workspace_bytes(&args, sizeof(args)));
  if (workspace.size() > 0) workspace.fill(0);
  args.workspace = workspace.data();
  // The first launch of this kernel is inside a capture: nothing may be left to load.
  const cuda::Graph graph = cuda::Graph::capture(stream, [&] { kernel.run(args, stream.get()); });
  for (std::uint64_t round = 0; round < 1000; ++round) {
    const auto wide = verify::make_ids(
        config.fields(), {kCount, round % 2 ? verify::IdPattern::zipf : verify::IdPattern::hostile, round});
    const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
    ids.upload(narrow.data(), narrow.size() * 4);
    graph.launch(stream);
    stream.synchronize();
    const reference::Indices want = reference::create_indices(config.fields(), wide);
    REQUIRE(order.to_vector<std::uint32_t>() == want.token_expert_order);
    REQUIRE(restore.to_vector<std::uint32_t>() == want.restore_token_order);
    REQUIRE(starts.to_vector<std::uint32_t>() == want.expert_start_indices);
  }
}

TEST_CASE("wrong arguments are refused by name") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const Config config = Config::from_json(
      R"({"moegen": 1, "name": "case", "hidden": 64, "intermediate": 64, "num_experts": 8, "top_k": 1,
          "router": {"scoring": "softmax"}})");
  const Kernel kernel = engine.get(config, "create_indices");
  const cuda::Stream stream;
  create_indices::Args args{};
  args.num_pairs = -1;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("num_pairs is negative"), Error);
  args.num_pairs = 8;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("expert_start_indices is null"), Error);
}
