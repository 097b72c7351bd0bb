// SPDX-License-Identifier: Apache-2.0
#include "tensor_map.hpp"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "cuda/driver.hpp"

namespace moegen::cuda {
namespace {

TensorMapType data_type(TensorElement element) {
  switch (element) {
    case TensorElement::uint8: return TensorMapType::uint8;
    case TensorElement::uint16: return TensorMapType::uint16;
    case TensorElement::uint32: return TensorMapType::uint32;
    case TensorElement::float16: return TensorMapType::float16;
    case TensorElement::bfloat16: return TensorMapType::bfloat16;
    case TensorElement::float32: return TensorMapType::float32;
  }
  throw Error(ErrorCode::internal, "a tensor map of an unknown element type");
}

TensorMapSwizzle swizzle_mode(TensorSwizzle swizzle) {
  constexpr std::array kModes = {TensorMapSwizzle::none, TensorMapSwizzle::span_32, TensorMapSwizzle::span_64,
                                 TensorMapSwizzle::span_128};
  return kModes.at(static_cast<std::size_t>(swizzle));
}

}  // namespace

TensorMap encode_tensor_map(const TensorMapDescription& description) {
  check_tensor_map(description);
  constexpr std::array<unsigned int, 5> kElementStrides = {1, 1, 1, 1, 1};
  std::array<std::uint64_t, 5> strides{};  // the driver wants an array for one dimension, too
  std::copy(description.strides.begin(), description.strides.end(), strides.begin());
  TensorMap map;
  check(driver().tensor_map_encode_tiled(
            &map, data_type(description.element), static_cast<unsigned int>(description.dims.size()),
            const_cast<void*>(description.base), description.dims.data(), strides.data(), description.box.data(),
            kElementStrides.data(), TensorMapInterleave::none, swizzle_mode(description.swizzle),
            TensorMapPromotion::l2_128, TensorMapFill::zero),
        "cuTensorMapEncodeTiled", description.name);
  return map;
}

}  // namespace moegen::cuda
