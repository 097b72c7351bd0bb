// SPDX-License-Identifier: Apache-2.0
// router on a GPU against the float64 reference: a pairwise table over sizes, rules, dtypes and inputs.
#include <string>

#include <doctest/doctest.h>

#include <moegen/args/router.h>
#include <moegen/arch.hpp>
#include <moegen/engine.hpp>
#include <moegen/error.hpp>

#include "cuda/device.hpp"
#include "gpu/device_test.hpp"
#include "support/build_ahead.hpp"
#include "support/router_run.hpp"
#include "support/router_table.hpp"

using namespace moegen;

Engine& test::router_engine() {
  require_device();
  static const cuda::PrimaryContext context;
  static Engine engine = memory_engine();
  return engine;
}

TEST_CASE("router keeps its rules on every pair of options") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const test::RouterTable table({0, 1, 31, 33, 4097});
  REQUIRE(table.size() >= 150);
  const cuda::DeviceInfo device = cuda::device_info(0);
  const Arch& arch = *arch_for_device(device.major, device.minor);
  test::build_ahead(engine, table.size(), [&](std::size_t i) { return make_plan(table.config(i), "router", arch); });
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Config config = table.config(i);
    CAPTURE(config.to_json());
    const auto wrong = verify::run_case(engine.get(config, "router"), config, table.at(i));
    CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
  }
  MESSAGE(table.size() << " cases");
}

TEST_CASE("65,537 tokens of 384 experts") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const Config config = Config::from_json(R"({"moegen": 1, "name": "many", "hidden": 64, "intermediate": 64,
      "num_experts": 384, "top_k": 8, "router": {"scoring": "sigmoid", "bias": "float32", "scale": 2.827}})");
  verify::RouterCase c;
  c.num_tokens = 65537;
  c.logits = verify::LogitPattern::mixed;
  const auto wrong = verify::run_case(engine.get(config, "router"), config, c);
  CHECK_MESSAGE(!wrong, (wrong ? *wrong : ""));
}

TEST_CASE("wrong arguments are refused by name") {
  test::require_device();
  const cuda::PrimaryContext context;
  Engine engine = test::memory_engine();
  const Config config = Config::from_json(R"({"moegen": 1, "name": "args", "hidden": 64, "intermediate": 64,
      "num_experts": 64, "top_k": 8, "router": {"scoring": "sigmoid", "bias": "float32"}})");
  const Kernel kernel = engine.get(config, "router");
  const cuda::Stream stream;
  const cuda::DeviceBuffer memory(1 << 20);
  router::Args args{};
  kernel.run(args, stream.get());  // no tokens: nothing is looked at, nothing is launched
  args.num_tokens = 1;
  CHECK_THROWS_WITH_AS(kernel.run(args, stream.get()), doctest::Contains("expert_indices is null"), Error);
}
