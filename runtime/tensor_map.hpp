// SPDX-License-Identifier: Apache-2.0
// Tensor maps from the host's side: one description for every target, checked before anything is encoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/core/tensor_map.h>

namespace moegen {

enum class TensorElement { uint8, uint16, uint32, float16, bfloat16, float32 };

/// How the 16-byte pieces of a tile are permuted: within spans of so many bytes, by the number of the span.
enum class TensorSwizzle { none, span_32, span_64, span_128 };

/// A tensor in global memory and the boxes that tensor copies move. Dimensions are listed innermost first.
struct TensorMapDescription {
  TensorElement element = TensorElement::uint8;
  const void* base = nullptr;          ///< 16-byte aligned
  std::vector<std::uint64_t> dims;     ///< elements, 1 .. 2^32 each; 1 to 5 dimensions
  std::vector<std::uint64_t> strides;  ///< bytes, of all dimensions but the innermost: multiples of 16, below 2^40
  std::vector<std::uint32_t> box;      ///< elements, 1 .. 256 each; innermost a multiple of 16 bytes
  TensorSwizzle swizzle = TensorSwizzle::none;  ///< the innermost extent of the box is at most its span
  std::string name = "tensor map";              ///< how messages call it
};

std::uint32_t element_bytes(TensorElement element) noexcept;
/// 32, 64 or 128; 0 without a swizzle.
std::uint32_t span_bytes(TensorSwizzle swizzle) noexcept;

/// Throws: config, naming the first precondition that `description` does not meet.
void check_tensor_map(const TensorMapDescription& description);

/// The map for kernels on the CPU target (cpu/tensor_map_layout.hpp). Throws: config.
TensorMap encode_for_cpu(const TensorMapDescription& description);

namespace cuda {
/// The map for kernels on a GPU: cuTensorMapEncodeTiled. Throws: config; unsupported without a driver; driver.
TensorMap encode_tensor_map(const TensorMapDescription& description);
}  // namespace cuda

}  // namespace moegen
