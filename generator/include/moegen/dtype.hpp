// SPDX-License-Identifier: Apache-2.0
// Element types by their torch names: the words of a config, of plans and of device code.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moegen {

enum class Dtype {
  float32,
  bfloat16,
  float16,
  float8_e4m3fn,
  float8_e8m0fnu,
  float4_e2m1fn,
  int4,
  uint8,
  uint16,
  int32,
  uint32,
  int64,
};

/// torch's name of `dtype`, e.g. "bfloat16".
std::string_view to_string(Dtype dtype) noexcept;

/// The dtype called `name`, or nothing.
std::optional<Dtype> find_dtype(std::string_view name) noexcept;

/// Size of one element in bits (4 for float4_e2m1fn and int4).
int bits(Dtype dtype) noexcept;

}  // namespace moegen
