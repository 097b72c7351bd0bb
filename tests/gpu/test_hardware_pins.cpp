// SPDX-License-Identifier: Apache-2.0
// What the hardware does with tensor copies, matrix products and conversions, against the fixtures that the CPU target
// is held to (tests/cpu/pins). MOEGEN_PINS_OUT=FOLDER writes new fixtures there instead.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "cpu/pins.hpp"
#include "gpu/device_test.hpp"
#include "support/core_text.hpp"
#include "support/gpu_text.hpp"

using namespace moegen;

namespace {

constexpr unsigned char kUntouched = 0xAB;

void require_hopper() {
  test::require_device();
  const cuda::DeviceInfo device = cuda::device_info(0);
  if (device.major != 9 || device.minor != 0) test::skip("the pins are of sm_90a, this is " + device.label());
}

std::vector<std::string> entries_of(const test::PinGroup& group) {
  std::vector<std::string> names;
  for (const test::Pin& pin : group.pins) names.push_back(pin.name);
  return names;
}

test::Bytes run(const test::GpuText& text, const test::Pin& pin) {
  const auto input = cuda::DeviceBuffer::of(pin.input);
  const cuda::DeviceBuffer output(pin.output_bytes);
  output.fill(kUntouched);
  test::PinArguments arguments{.map = {}, .input = input.data(), .output = output.data()};
  if (pin.map) {
    TensorMapDescription map = *pin.map;
    map.base = pin.map_of_output ? output.data() : input.data();
    arguments.map = cuda::encode_tensor_map(map);
  }
  void* parameters[] = {&arguments};
  text.run(pin.name, {.grid = 1, .block = pin.threads, .shared_bytes = pin.shared_bytes}, parameters);
  return output.to_vector<unsigned char>();
}

std::map<std::string, test::Bytes> run_all(const test::PinGroup& group) {
  const test::GpuText text(group.text(), group.name + ".cu", find_arch("sm_90a"), entries_of(group));
  std::map<std::string, test::Bytes> outputs;
  for (const test::Pin& pin : group.pins) outputs[pin.name] = run(text, pin);
  return outputs;
}

bool is_trivial(const test::Bytes& bytes) {
  for (unsigned char byte : bytes)
    if (byte != bytes[0]) return false;
  return true;
}

void write(const std::filesystem::path& folder, const test::PinGroup& group,
           const std::map<std::string, test::Bytes>& outputs) {
  std::filesystem::create_directories(folder);
  const std::string comment = fmt::format("written by test_gpu_hardware_pins on {}, driver for CUDA {}",
                                          cuda::device_info(0).label(), cuda::version_text(cuda::driver().version));
  std::ofstream(folder / (group.name + ".txt"), std::ios::binary) << test::format_fixture(comment, outputs);
}

}  // namespace

TEST_CASE("the hardware does what the fixtures say") {
  require_hopper();
  const cuda::PrimaryContext context;
  const char* folder = std::getenv("MOEGEN_PINS_OUT");
  for (const test::PinGroup& group : test::pin_groups()) {
    CAPTURE(group.name);
    const auto outputs = run_all(group);
    REQUIRE(outputs.size() == group.pins.size());
    for (const auto& [name, bytes] : outputs)
      if (!name.starts_with("load_far")) CHECK_MESSAGE(!is_trivial(bytes), name);
    if (folder) {
      write(folder, group, outputs);
      continue;
    }
    const auto pinned = test::parse_fixture(test::file_text(test::fixture_path(group)));
    REQUIRE(pinned.size() == outputs.size());
    for (const auto& [name, bytes] : outputs) CHECK_MESSAGE(bytes == pinned.at(name), name);
  }
}
