// SPDX-License-Identifier: Apache-2.0
// What users of other routers ran into, one case each; the number is that of the report in our catalogue, and the
// repositories are those where it was filed. The same cases run on the CPU target and on GPUs. A config costs a
// compile, so cases share them, and lists of many configs are run in full by --no-skip alone.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/router_run.hpp"
#include "verify/random.hpp"

using namespace moegen;
using test::route;
using test::Routed;
using test::router_config;
using test::RouterRows;

namespace {

using Ids = std::vector<std::int32_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

constexpr const char* kDeepSeek = R"("scoring": "sigmoid", "bias": "float32", "num_groups": 8, "top_groups": 4,
    "group_score": "top2_sum", "scale": 1)";

std::vector<double> random_logits(std::size_t count, std::uint64_t seed, double low = -3, double high = 3) {
  std::vector<double> logits(count);
  for (std::size_t i = 0; i < count; ++i) logits[i] = low + (high - low) * verify::random_unit(seed, i);
  return logits;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

bool is_near(double got, double want) { return std::abs(got - want) <= 3e-6 * std::abs(want); }

Ids first_ids(std::int32_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// The `k` largest of one row, of equal ones the lower id.
Ids stable_top(const std::vector<double>& keys, std::size_t k) {
  Ids ids = first_ids(static_cast<std::int32_t>(keys.size()));
  std::ranges::sort(ids, [&](auto a, auto b) {
    const double first = keys[static_cast<std::size_t>(a)], other = keys[static_cast<std::size_t>(b)];
    return first != other ? first > other : a < b;
  });
  ids.resize(k);
  return ids;
}

void check_distinct(const Routed& routed, std::size_t slots, std::int32_t experts) {
  for (std::size_t at = 0; at < routed.ids.size(); at += slots) {
    const std::set<std::int32_t> ids(routed.ids.begin() + static_cast<std::ptrdiff_t>(at),
                                     routed.ids.begin() + static_cast<std::ptrdiff_t>(at + slots));
    CHECK(ids.size() == slots);
    CHECK(*ids.begin() >= 0);
    CHECK(*ids.rbegin() < experts);
  }
  for (const double weight : routed.weights) CHECK(std::isfinite(weight));
}

void check_top_5_of(int experts, std::string_view scoring) {
  const Config config = router_config(fmt::format(R"("num_experts": {}, "top_k": 5)", experts),
                                      fmt::format(R"("scoring": "{}")", scoring));
  RouterRows rows{.logits = random_logits(static_cast<std::size_t>(experts), 7)};
  CHECK(route(config, rows).ids == stable_top(rows.logits, 5));
}

/// Three of eight experts, against shares computed here.
void check_shares(std::string_view dtype, std::string_view scoring, bool normalize) {
  const std::vector<double> logits = {-1, 0.5, 2, -3, 1, 0.25, -0.5, 1.5};
  const Config config =
      router_config(R"("num_experts": 8, "top_k": 3)",
                    fmt::format(R"("scoring": "{}", "logits": "{}", "normalize": {})", scoring, dtype, normalize));
  const Routed routed = route(config, {.logits = logits});
  CHECK(routed.ids == Ids{2, 7, 4});
  double all = 0, chosen = 0;
  const auto score = [&](double x) { return scoring == "softmax" ? std::exp(x) : sigmoid(x); };
  for (const double x : logits) all += score(x);
  for (const int id : {2, 7, 4}) chosen += score(logits[static_cast<std::size_t>(id)]);
  if (scoring == "sigmoid") all = 1;
  for (std::size_t slot = 0; slot < 3; ++slot)
    CHECK(is_near(routed.weights[slot],
                  score(logits[static_cast<std::size_t>(routed.ids[slot])]) / (normalize ? chosen : all)));
}

void check_top_8_of_one_group(int experts) {
  const Config config = router_config(fmt::format(R"("num_experts": {}, "top_k": 8)", experts),
                                      R"("scoring": "sigmoid", "bias": "float32")");
  const auto count = static_cast<std::size_t>(experts);
  RouterRows rows{.logits = random_logits(count, 18), .bias = std::vector<double>(count, 0.125)};
  CHECK(route(config, rows).ids == stable_top(rows.logits, 8));
}

void check_top_10_of_512(std::string_view scoring) {
  const Config config = router_config(R"("num_experts": 512, "top_k": 10)", fmt::format(R"("scoring": "{}")", scoring));
  RouterRows rows{.logits = random_logits(512, 21)};
  CHECK(route(config, rows).ids == stable_top(rows.logits, 10));
}

void check_ties(std::string_view dtype, std::string_view scoring) {
  const Config config = router_config(R"("num_experts": 256, "top_k": 8)",
                                      fmt::format(R"("scoring": "{}", "logits": "{}")", scoring, dtype));
  std::vector<double> logits = random_logits(256, 34);
  for (double& logit : logits) logit = std::round(logit * 4) / 4;
  CHECK(route(config, {.logits = logits}).ids == stable_top(logits, 8));
  CHECK(route(config, {.logits = std::vector<double>(256, 0.5)}).ids == first_ids(8));
}

constexpr const char* kScorings[] = {"none", "softmax", "sigmoid", "sqrt_softplus"};

/// Four of 40 experts: the config that most cases share.
Config forty_experts(std::string_view scoring, bool normalize = true) {
  return router_config(R"("num_experts": 40, "top_k": 4)",
                       fmt::format(R"("scoring": "{}", "normalize": {})", scoring, normalize));
}

/// Two of eight experts, with a bias.
Config biased_experts(std::string_view scoring) {
  return router_config(R"("num_experts": 8, "top_k": 2)",
                       fmt::format(R"("scoring": "{}", "bias": "float32")", scoring));
}

}  // namespace

TEST_CASE("1 (vllm): with every key negative no expert comes from a dropped group") {
  const Config config = router_config(R"("num_experts": 64, "top_k": 8)", kDeepSeek);
  RouterRows rows{.logits = random_logits(64 * 5, 1), .bias = std::vector<double>(64, -2)};
  const Routed routed = route(config, rows);
  for (std::size_t token = 0; token < 5; ++token) {
    std::vector<double> score(8);
    for (std::size_t g = 0; g < 8; ++g) {
      std::vector<double> group;
      for (std::size_t e = 0; e < 8; ++e) group.push_back(sigmoid(rows.logits[token * 64 + g * 8 + e]));
      std::ranges::sort(group, std::greater());
      score[g] = group[0] + group[1];
    }
    const Ids kept = stable_top(score, 4);
    for (std::size_t slot = 0; slot < 8; ++slot)
      CHECK(std::ranges::find(kept, routed.ids[token * 8 + slot] / 8) != kept.end());
  }
}

TEST_CASE("2 (vllm): groups of one expert have one value, not two") {
  const Config config = router_config(R"("num_experts": 8, "top_k": 2)", R"("scoring": "sigmoid", "bias": "float32",
      "num_groups": 8, "top_groups": 2, "group_score": "top2_sum")");
  RouterRows rows{.logits = {0, 3, -1, 2, 1, -2, -3, 0.5}, .bias = std::vector<double>(8, -5)};
  CHECK(route(config, rows).ids == Ids{1, 3});
}

TEST_CASE("3, 20 (vllm, llama.cpp, TileGym): numbers of experts that are no power of two and in no list") {
  check_top_5_of(160, "sqrt_softplus");
  for (const int experts : {5, 60, 320}) check_top_5_of(experts, "none");
}

TEST_CASE("3, 20: all numbers that were reported" * doctest::skip()) {
  for (const int experts : {5, 40, 48, 60, 72, 96, 144, 160, 288, 320, 384, 576, 896})
    check_top_5_of(experts, "sqrt_softplus");
}

TEST_CASE("4 (vllm): rows further apart than they are long, with poison between them") {
  const Config config = router_config(R"("num_experts": 60, "top_k": 4)", R"("scoring": "softmax")");
  RouterRows rows{.logits = random_logits(60 * 9, 4)};
  const Routed dense = route(config, rows);
  for (const std::int64_t padding : {1, 3, 4}) {
    rows.padding = padding;
    const Routed apart = route(config, rows);
    CHECK(apart.ids == dense.ids);
    CHECK(apart.weights == dense.weights);
  }
}

TEST_CASE("5 (sglang): negative keys, keys of both signs, and zeros of both signs") {
  const Config config = router_config(R"("num_experts": 128, "top_k": 6)", R"("scoring": "none", "bias": "float32",
      "normalize": false)");
  RouterRows rows{.logits = random_logits(128, 5, -4, -1), .bias = std::vector<double>(128, -0.5)};
  CHECK(route(config, rows).ids == stable_top(rows.logits, 6));
  rows.logits = random_logits(128, 6, -1, 1);
  CHECK(route(config, rows).ids == stable_top(rows.logits, 6));
  for (std::size_t e = 0; e < 128; ++e) rows.logits[e] = e % 3 == 0 ? -0.0 : e % 3 == 1 ? 0.0 : -1;
  rows.bias.assign(128, -0.0);
  CHECK(route(config, rows).ids == Ids{0, 1, 3, 4, 6, 7});
}

TEST_CASE("7 (flashinfer): softmax's default, 16-bit logits, weights as they are, sigmoid's normalised ones") {
  check_shares("float32", "softmax", true);
  check_shares("bfloat16", "softmax", false);
  check_shares("float16", "sigmoid", true);
}

TEST_CASE("7: every dtype of logits, scoring and normalisation" * doctest::skip()) {
  for (const char* dtype : {"float32", "bfloat16", "float16"})
    for (const char* scoring : {"softmax", "sigmoid"})
      for (const bool normalize : {false, true}) check_shares(dtype, scoring, normalize);
}

TEST_CASE("9, 12 (TensorRT-LLM, sglang): weights of softmax, then top-k, are shares of the whole row") {
  const Routed routed = route(forty_experts("softmax", false), {.logits = random_logits(40, 9)});
  const double sum = std::accumulate(routed.weights.begin(), routed.weights.end(), 0.0);
  CHECK(sum > 0.1);
  CHECK(sum < 0.99);
  for (const double weight : routed.weights) CHECK((weight > 0 && weight < 1));
}

TEST_CASE("10 (transformers): a bias does not reach the weights") {
  const Config config = biased_experts("softmax");
  RouterRows rows{.logits = random_logits(8, 10), .bias = std::vector<double>(8, 0.25)};
  const Routed first = route(config, rows);
  rows.bias.assign(8, 4.25);
  const Routed second = route(config, rows);
  CHECK(first.ids == second.ids);
  CHECK(first.weights == second.weights);
}

TEST_CASE("11 (vllm): a bias changes the choice") {
  const Config config = biased_experts("sigmoid");
  RouterRows rows{.logits = {2, 1, 0, 0, 0, 0, 0, 0}, .bias = std::vector<double>(8, 0)};
  CHECK(route(config, rows).ids == Ids{0, 1});
  rows.bias[5] = 1;
  CHECK(route(config, rows).ids == Ids{5, 0});
}

TEST_CASE("14 (a vendor's fork): all of 128 experts, top 8, compared") {
  const Config config = router_config(R"("num_experts": 128, "top_k": 8)", R"("scoring": "softmax")");
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    RouterRows rows{.logits = random_logits(128, 140 + seed)};
    CHECK(route(config, rows).ids == stable_top(rows.logits, 8));
  }
}

TEST_CASE("18, 19 (aiter, sglang): one group of more than 32 experts") { check_top_8_of_one_group(384); }

TEST_CASE("18, 19: all numbers that were reported" * doctest::skip()) {
  for (const int experts : {64, 256, 384}) check_top_8_of_one_group(experts);
}

TEST_CASE("21, 22 (TensorRT-LLM, flashinfer): 512 experts, top 10, by logits and by softmax") {
  for (const char* scoring : {"none", "softmax"}) check_top_10_of_512(scoring);
}

TEST_CASE("21, 22: every scoring with 512 experts, top 10" * doctest::skip()) {
  for (const char* scoring : kScorings) check_top_10_of_512(scoring);
}

TEST_CASE(
    "24, 27 (vllm, sglang, aiter, rtp-llm): rows of NaN and infinities give distinct experts and finite weights") {
  for (const char* scoring : kScorings) {
    const Config config = forty_experts(scoring);
    RouterRows rows;
    for (const double all : {kNaN, kInfinity, -kInfinity}) rows.logits.insert(rows.logits.end(), 40, all);
    std::vector<double> one = random_logits(40, 24);
    one[3] = kNaN;
    one[39] = kInfinity;
    rows.logits.insert(rows.logits.end(), one.begin(), one.end());
    const Routed routed = route(config, rows);
    check_distinct(routed, 4, 40);
    for (std::size_t token = 0; token < 3; ++token)
      for (std::size_t slot = 0; slot < 4; ++slot) {
        CHECK(routed.ids[token * 4 + slot] == static_cast<std::int32_t>(slot));
        CHECK(routed.weights[token * 4 + slot] == 0);
      }
    one[3] = one[39] = -1e30;
    CHECK(Ids(routed.ids.end() - 4, routed.ids.end()) == stable_top(one, 4));
  }
}

TEST_CASE("fewer finite keys than slots: fillers of the kept groups first, by id") {
  const Config config = router_config(R"("num_experts": 16, "top_k": 6)", R"("scoring": "sigmoid", "num_groups": 4,
      "top_groups": 2, "group_score": "max")");
  std::vector<double> logits(16, kNaN);
  logits[5] = 1;   // group 1
  logits[14] = 2;  // group 3
  logits[0] = -4;  // group 0, dropped
  const Routed routed = route(config, {.logits = logits});
  CHECK(routed.ids == Ids{14, 5, 4, 6, 7, 12});
  for (std::size_t slot = 2; slot < 6; ++slot) CHECK(routed.weights[slot] == 0);
}

TEST_CASE("29 (sglang): half-precision weights of tiny scores still sum to 1") {
  const Config config = router_config(R"("num_experts": 8, "top_k": 4)",
                                      R"("scoring": "sigmoid", "logits": "float16", "weights": "float16")");
  const Routed routed = route(config, {.logits = {-30, -31, -32, -33, -40, -41, -42, -43}});
  CHECK(routed.ids == Ids{0, 1, 2, 3});
  CHECK(std::abs(std::accumulate(routed.weights.begin(), routed.weights.end(), 0.0) - 1) < 2e-3);
}

TEST_CASE("normalised weights keep their ratios at any depth") {
  for (const char* scoring : {"softmax", "sigmoid", "sqrt_softplus"})
    for (const double depth : {-50.0, -200.0, -1000.0}) {
      const Config config = biased_experts(scoring);
      std::vector<double> logits(8, depth - 90), bias(8, 0);
      logits[2] = depth;
      logits[6] = depth - 10;
      bias[2] = bias[6] = 1;
      const Routed routed = route(config, {.logits = logits, .bias = bias});
      const double ratio = std::exp(std::string(scoring) == "sqrt_softplus" ? -5.0 : -10.0);
      const std::size_t larger = routed.ids[0] == 2 ? 0 : 1;
      CHECK(is_near(routed.weights[larger], 1 / (1 + ratio)));
      CHECK(is_near(routed.weights[1 - larger], ratio / (1 + ratio)));
    }
}

TEST_CASE("34 (vllm, sglang): equal keys go to the lower expert, whatever the dtype") {
  check_ties("float32", "sigmoid");
  check_ties("bfloat16", "softmax");
}

TEST_CASE("34: equal keys of every dtype and scoring" * doctest::skip()) {
  for (const char* dtype : {"float32", "bfloat16", "float16"})
    for (const char* scoring : {"softmax", "sigmoid"}) check_ties(dtype, scoring);
}

TEST_CASE("34: equal groups go to the lower group") {
  const Config config = router_config(R"("num_experts": 64, "top_k": 8)", kDeepSeek);
  const Routed routed = route(config, {.logits = std::vector<double>(64, 1), .bias = std::vector<double>(64, 0)});
  CHECK(routed.ids == first_ids(8));
}

TEST_CASE("35 (FlagGems, xpu kernels): score + bias is float32 even if both are bfloat16") {
  const Config config = router_config(R"("num_experts": 4, "top_k": 1)",
                                      R"("scoring": "sigmoid", "logits": "bfloat16", "bias": "bfloat16")");
  // In bfloat16 both keys would be 100.5: its steps are 0.5 there.
  CHECK(route(config, {.logits = {0, 0.25, -1, -1}, .bias = {100, 100, 0, 0}}).ids == Ids{1});
}

TEST_CASE("39 (vllm, sglang): the scale counts once, normalised or not") {
  for (const char* scoring : kScorings)
    for (const bool normalize : {false, true}) {
      const Config config = forty_experts(scoring, normalize);
      RouterRows rows{.logits = random_logits(40, 39, 0.5, 3)};
      const Routed plain = route(config, rows);
      rows.scale = 2.5;
      const Routed scaled = route(config, rows);
      for (std::size_t i = 0; i < plain.weights.size(); ++i)
        CHECK(scaled.weights[i] == static_cast<double>(static_cast<float>(2.5 * plain.weights[i])));
    }
}

TEST_CASE("41 (sglang): shared slots are appended, with their own weight") {
  const Config config = router_config(R"("num_experts": 16, "top_k": 3)",
                                      R"("scoring": "softmax", "shared_slots": {"count": 2, "weight": 0.375})");
  RouterRows rows{.logits = random_logits(32, 41), .scale = 2.5};
  const Routed routed = route(config, rows);
  for (std::size_t token = 0; token < 2; ++token) {
    const std::vector<double> row(rows.logits.begin() + static_cast<std::ptrdiff_t>(16 * token),
                                  rows.logits.begin() + static_cast<std::ptrdiff_t>(16 * (token + 1)));
    const Ids chosen = stable_top(row, 3);
    CHECK(Ids(routed.ids.begin() + static_cast<std::ptrdiff_t>(5 * token),
              routed.ids.begin() + static_cast<std::ptrdiff_t>(5 * token + 5)) ==
          Ids{chosen[0], chosen[1], chosen[2], 16, 17});
    CHECK(routed.weights[5 * token + 3] == 0.375);
    CHECK(routed.weights[5 * token + 4] == 0.375);
  }
}

TEST_CASE("42, 43 (sglang): no tokens launch nothing, whatever the pointers") {
  CHECK(route(forty_experts("softmax"), {}).ids.empty());
}

TEST_CASE("45 (vllm): token ids outside the vocabulary give a row of -1") {
  for (const char* dtype : {"int32", "int64"}) {
    const Config config =
        router_config(R"("num_experts": 8, "top_k": 2)",
                      fmt::format(R"("scoring": "sqrt_softplus", "hash": {{"vocab": 3, "token_id": "{}"}})", dtype));
    std::vector<std::int64_t> ids = {1, -1, 3, 10, 2};
    RouterRows rows{.logits = random_logits(8 * 5, 45), .token_ids = ids, .table = {0, 1, 7, 2, 5, 6}};
    if (std::string(dtype) == "int32")  // the tensor holds 32-bit words
      rows.token_ids = {(std::int64_t{0xFFFFFFFF} << 32) | 1, (std::int64_t{10} << 32) | 3, 2};
    const Routed routed = route(config, rows);
    CHECK(routed.ids == Ids{7, 2, -1, -1, -1, -1, -1, -1, 5, 6});
    for (const std::size_t slot : {2, 3, 4, 5, 6, 7}) CHECK(routed.weights[slot] == 0);
    CHECK(is_near(routed.weights[0] + routed.weights[1], 1));
  }
}

TEST_CASE("66 (vllm): a token has the same bits in every batch, and from run to run") {
  const Config config =
      router_config(R"("num_experts": 96, "top_k": 6)", R"("scoring": "softmax", "normalize": false)");
  const RouterRows rows{.logits = random_logits(96 * 33, 66)};
  const Routed batch = route(config, rows), again = route(config, rows);
  CHECK(batch.ids == again.ids);
  CHECK(batch.weights == again.weights);
  for (const std::size_t token : {std::size_t{0}, std::size_t{16}, std::size_t{32}}) {
    const auto begin = rows.logits.begin() + static_cast<std::ptrdiff_t>(96 * token);
    const Routed alone = route(config, {.logits = {begin, begin + 96}});
    for (std::size_t slot = 0; slot < 6; ++slot) {
      CHECK(alone.ids[slot] == batch.ids[6 * token + slot]);
      CHECK(alone.weights[slot] == batch.weights[6 * token + slot]);
    }
  }
}

TEST_CASE("identity experts may win, with groups as without") {
  for (const char* groups : {"", R"(, "num_groups": 4, "top_groups": 1)"}) {
    const Config config = router_config(R"("num_experts": 16, "num_zero_experts": 3, "top_k": 3)",
                                        std::string(R"("scoring": "softmax", "bias": "float32")") + groups);
    std::vector<double> logits(19, 0);
    logits[18] = 3;
    logits[9] = 2;
    logits[16] = 1;
    CHECK(route(config, {.logits = logits, .bias = std::vector<double>(19, 0)}).ids == Ids{18, 9, 16});
  }
}
