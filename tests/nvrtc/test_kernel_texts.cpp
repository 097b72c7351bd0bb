// SPDX-License-Identifier: Apache-2.0
// The kernel texts of tests that run on a GPU and on the CPU target compile where there is neither.
#include <doctest/doctest.h>

#include "cpu/matmul.hpp"
#include "cpu/pins.hpp"
#include "cuda/nvrtc.hpp"
#include "support/core_text.hpp"
#include "support/skip.hpp"

using namespace moegen;

namespace {

const cuda::Nvrtc& nvrtc() {
  std::string why;
  static const auto loaded = cuda::Nvrtc::load(&why);
  if (!loaded) test::skip(why);
  return *loaded;
}

}  // namespace

TEST_CASE("the pins compile") {
  for (const test::PinGroup& group : test::pin_groups()) {
    CAPTURE(group.name);
    std::vector<std::string> entries;
    for (const test::Pin& pin : group.pins) entries.push_back(pin.name);
    REQUIRE(entries.size() >= 9);
    CHECK_NOTHROW(nvrtc().compile(group.text(), group.name + ".cu", find_arch("sm_90a"), entries));
  }
}

TEST_CASE("a fixture is read as it was written") {
  test::Bytes ramp(200), zeros(300, 0);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<unsigned char>(i);
  const std::map<std::string, test::Bytes> outputs = {{"ramp", ramp}, {"zeros", zeros}};
  const std::string text = test::format_fixture("a comment", outputs);
  CHECK(test::parse_fixture(text) == outputs);
  CHECK(text.size() < 700);
}

TEST_CASE("every tensor of the pins can be described") {
  for (const test::PinGroup& group : test::pin_groups()) {
    for (const test::Pin& pin : group.pins) {
      if (!pin.map) continue;
      TensorMapDescription map = *pin.map;
      map.base = reinterpret_cast<const void*>(0x1000);
      CHECK_NOTHROW(check_tensor_map(map));
    }
  }
}

TEST_CASE("the matrix product compiles, without a spill") {
  const std::vector<std::string> entries = {test::matmul_entry(Dtype::bfloat16),
                                            test::matmul_entry(Dtype::float8_e4m3fn)};
  const cuda::CompiledCubin cubin = nvrtc().compile(test::matmul_text(), "matmul.cu", find_arch("sm_90a"), entries);
  for (const EntryResources& resources : cubin.resources) CHECK(resources.spill_store_bytes == 0);
}

TEST_CASE("the sums of grouped_matmul's reference compile, without a spill") {
  const std::string text =
      test::core_text() + test::without_includes(test::file_text("tests/cpu/kernels/matmul_sums.cuh"));
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const cuda::CompiledCubin cubin = nvrtc().compile(text, "matmul_sums.cu", find_arch(arch), {"matmul_sums"});
    for (const EntryResources& resources : cubin.resources) CHECK(resources.spill_store_bytes == 0);
  }
}
