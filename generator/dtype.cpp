// SPDX-License-Identifier: Apache-2.0
#include <moegen/dtype.hpp>

#include <array>

namespace moegen {
namespace {

struct Row {
  Dtype dtype;
  std::string_view name;
  int bits;
};

// In the order of the enum, so that a Dtype is its own index.
constexpr std::array<Row, 12> kRows = {{
    {Dtype::float32, "float32", 32},
    {Dtype::bfloat16, "bfloat16", 16},
    {Dtype::float16, "float16", 16},
    {Dtype::float8_e4m3fn, "float8_e4m3fn", 8},
    {Dtype::float8_e8m0fnu, "float8_e8m0fnu", 8},
    {Dtype::float4_e2m1fn, "float4_e2m1fn", 4},
    {Dtype::int4, "int4", 4},
    {Dtype::uint8, "uint8", 8},
    {Dtype::uint16, "uint16", 16},
    {Dtype::int32, "int32", 32},
    {Dtype::uint32, "uint32", 32},
    {Dtype::int64, "int64", 64},
}};

const Row& row(Dtype dtype) noexcept { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view to_string(Dtype dtype) noexcept { return row(dtype).name; }

std::optional<Dtype> find_dtype(std::string_view name) noexcept {
  for (const Row& candidate : kRows)
    if (candidate.name == name) return candidate.dtype;
  return std::nullopt;
}

int bits(Dtype dtype) noexcept { return row(dtype).bits; }

}  // namespace moegen
