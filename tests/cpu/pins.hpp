// SPDX-License-Identifier: Apache-2.0
// Pins: kernels whose output on hardware is kept as a fixture (pins/*.txt), for the CPU target to be held to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_map.hpp"

namespace moegen::test {

using Bytes = std::vector<unsigned char>;

/// One entry of a group's text: one block of 128 threads (32 where `threads` says so).
struct Pin {
  std::string name;  ///< of the entry and in the fixture
  std::string call;  ///< the entry's body
  Bytes input;
  std::uint32_t output_bytes = 0;
  std::uint32_t shared_bytes = 0;
  std::uint32_t threads = 128;
  /// Of the tensor in `input`, or in the output where `map_of_output`; without a base.
  std::optional<TensorMapDescription> map;
  bool map_of_output = false;
};

/// Pins with one text and one fixture file.
struct PinGroup {
  std::string name;
  std::string specialisations;  ///< bodies of Wgmma
  std::vector<Pin> pins;
  std::string text() const;  ///< the whole kernel text
};

std::vector<PinGroup> pin_groups();

/// The kernel's parameter, as pins.cuh has it.
struct PinArguments {
  TensorMap map;
  const void* input = nullptr;
  void* output = nullptr;
};

/// Fixtures: "[name] bytes", then lines of hexadecimal digits, " x N" behind one that comes N times; '#' begins a
/// comment.
std::string format_fixture(const std::string& comment, const std::map<std::string, Bytes>& outputs);
std::map<std::string, Bytes> parse_fixture(std::string_view text);
/// "pins/tensor_load.txt" below tests/cpu, in this tree.
std::string fixture_path(const PinGroup& group);

}  // namespace moegen::test
