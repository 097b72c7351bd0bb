// SPDX-License-Identifier: Apache-2.0
// The CPU target against what the hardware did (pins/*.txt, written by tests/gpu/test_hardware_pins.cpp), byte for
// byte.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "cpu/pins.hpp"
#include "support/core_text.hpp"
#include "support/cpu_text.hpp"

using namespace moegen;

namespace {

test::Bytes run(const test::CpuText& text, const test::Pin& pin, const CpuOptions& options, std::string& reports) {
  const CpuBuffer input(std::max<std::size_t>(pin.input.size(), 16), "input"), output(pin.output_bytes, "output");
  std::copy(pin.input.begin(), pin.input.end(), static_cast<unsigned char*>(input.data()));
  std::fill_n(static_cast<unsigned char*>(output.data()), output.size(), static_cast<unsigned char>(0xAB));
  test::PinArguments arguments{.map = {}, .input = pin.input.empty() ? nullptr : input.data(), .output = output.data()};
  if (pin.map) {
    TensorMapDescription map = *pin.map;
    map.base = pin.map_of_output ? output.data() : input.data();
    arguments.map = encode_for_cpu(map);
  }
  void* parameters[] = {&arguments};
  reports = test::text(
      text.run(pin.name, {.grid = 1, .block = pin.threads, .shared_bytes = pin.shared_bytes}, parameters, options));
  const auto* bytes = static_cast<const unsigned char*>(output.data());
  return {bytes, bytes + output.size()};
}

std::vector<std::string> entries_of(const test::PinGroup& group) {
  std::vector<std::string> names;
  for (const test::Pin& pin : group.pins) names.push_back(pin.name);
  return names;
}

/// Where they first differ; for messages.
std::size_t first_difference(const test::Bytes& a, const test::Bytes& b) {
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  return i;
}

std::string existing_fixture(const test::PinGroup& group) {
  const std::string path = test::fixture_path(group);
  if (std::filesystem::exists(path)) return path;
  const std::string in_tree = std::string(MOEGEN_SOURCE_DIR "/") + path;
  return std::filesystem::exists(in_tree) ? in_tree : "";
}

void compare(const test::PinGroup& group, AsyncTiming timing) {
  const auto pinned = test::parse_fixture(test::file_text(existing_fixture(group)));
  REQUIRE(pinned.size() == group.pins.size());
  const test::CpuText text(group.text(), group.name + ".cu", find_arch("sm_90a"), entries_of(group));
  CpuOptions options;
  options.async_timing = timing;
  for (const test::Pin& pin : group.pins) {
    std::string reports;
    const test::Bytes bytes = run(text, pin, options, reports);
    const test::Bytes& expected = pinned.at(pin.name);
    CHECK_MESSAGE(reports.empty(), reports);
    CHECK_MESSAGE(bytes == expected,
                  pin.name << ": byte " << first_difference(bytes, expected) << " of " << bytes.size());
  }
}

}  // namespace

TEST_CASE("every pinned kernel runs without a report of the checks") {
  for (const test::PinGroup& group : test::pin_groups()) {
    const test::CpuText text(group.text(), group.name + ".cu", find_arch("sm_90a"), entries_of(group), true);
    for (const test::Pin& pin : group.pins) {
      if (pin.name.ends_with("_digest")) continue;  // long, and all alike
      std::string reports;
      const test::Bytes bytes = run(text, pin, {}, reports);
      CHECK_MESSAGE(reports.empty(), pin.name << ": " << reports);
      if (pin.name == "load_far_outside") continue;  // zeros are what it should give
      CHECK_MESSAGE(std::any_of(bytes.begin(), bytes.end(), [&](unsigned char byte) { return byte != bytes[0]; }),
                    pin.name << ": every byte is the same");
    }
  }
}

TEST_CASE("every pinned kernel gives the hardware's bytes") {
  test::cpu_target();
  for (const test::PinGroup& group : test::pin_groups())
    REQUIRE_MESSAGE(!existing_fixture(group).empty(), test::fixture_path(group)
                                                          << " is missing: run test_gpu_hardware_pins on an H200");
  for (const test::PinGroup& group : test::pin_groups()) compare(group, AsyncTiming::late);
}
