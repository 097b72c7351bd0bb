// SPDX-License-Identifier: Apache-2.0
// create_indices on a GPU against the plain reference, exactly: a pairwise table over every option and hostile input.
#include <array>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/args/create_indices.h>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "gpu/device_test.hpp"
#include "reference/create_indices.hpp"
#include "support/pairwise.hpp"
#include "verify/indices_case.hpp"

namespace {

using namespace moegen;

constexpr std::array<int, 11> kExperts = {1, 5, 8, 60, 128, 256, 512, 513, 896, 1025, 2048};
constexpr std::array<std::int64_t, 8> kPairs = {0, 1, 11, 197, 2500, 20660, 100000, 524288};
constexpr std::array<int, 5> kPads = {1, 4, 16, 64, 128};
constexpr std::array<std::string_view, 5> kIds = {"int32", "uint32", "uint8", "uint16", "int64"};
constexpr std::array<std::string_view, 2> kModes = {"active", "all"};
// Local range and what follows the routed experts.
enum Extra { kNothing, kFirstHalf, kMiddle, kZeroExperts, kSharedSlots, kNumExtras };
enum Column { kE, kP, kPattern, kPad, kId, kMode, kScales, kExtra };

int id_limit(std::string_view ids) { return ids == "uint8" ? 256 : ids == "uint16" ? 65536 : 1 << 30; }

bool possible(const test::Choice& choice) {
  const int experts = kExperts[choice[kE]], extra = static_cast<int>(choice[kExtra]);
  const int space = experts + (extra == kZeroExperts ? 3 : extra == kSharedSlots ? 2 : 0);
  return space <= id_limit(kIds[choice[kId]]) && (experts >= 3 || extra != kMiddle) && space <= 2048;
}

std::string config_text(const test::Choice& choice) {
  const int experts = kExperts[choice[kE]], extra = static_cast<int>(choice[kExtra]);
  std::string indices =
      fmt::format(R"("ids": "{}", "experts": "{}", "pad_rows_to": {}, "scales_offset": {})", kIds[choice[kId]],
                  kModes[choice[kMode]], kPads[choice[kPad]], choice[kScales] == 1);
  if (extra == kFirstHalf) indices += fmt::format(R"(, "num_local_experts": {})", (experts + 1) / 2);
  if (extra == kMiddle)
    indices += fmt::format(R"(, "first_expert": {}, "num_local_experts": {})", experts / 3, experts / 3);
  const std::string zero = extra == kZeroExperts ? R"("num_zero_experts": 3,)" : "";
  const std::string shared = extra == kSharedSlots ? R"(, "shared_slots": {"count": 2, "weight": 1.0})" : "";
  return fmt::format(
      R"({{"moegen": 1, "name": "case", "hidden": 64, "intermediate": 64, "num_experts": {}, "top_k": 1, {}
                         "router": {{"scoring": "softmax"{}}}, "indices": {{{}}}}})",
      experts, zero, shared, indices);
}

std::vector<test::Choice> table() {
  return test::pairwise({kExperts.size(), kPairs.size(), verify::all_id_patterns().size(), kPads.size(), kIds.size(),
                         kModes.size(), 2, kNumExtras},
                        possible);
}

}  // namespace

TEST_CASE("every config of the table is legal") {
  for (const test::Choice& choice : table()) CHECK_NOTHROW(Config::from_json(config_text(choice)));
}

TEST_CASE("create_indices equals the reference on every pair of options") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const auto cases = table();
  REQUIRE(cases.size() >= kExperts.size() * kPairs.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Config config = Config::from_json(config_text(cases[i]));
    const verify::IndicesCase c{kPairs[cases[i][kP]], verify::all_id_patterns()[cases[i][kPattern]], 1000 + i};
    CAPTURE(config.to_json());
    const auto wrong = verify::run_case(engine.get(config, "create_indices"), config, c);
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
  MESSAGE(cases.size() << " cases");
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
