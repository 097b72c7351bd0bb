// SPDX-License-Identifier: Apache-2.0
// What cuTensorMapEncodeTiled demands of a tiled map without interleaving ("cuda.h", CUDA 13.0), one rule at a time:
// the driver answers every breach with the same CUDA_ERROR_INVALID_VALUE.
#include "tensor_map.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "cpu/tensor_map_layout.hpp"

namespace moegen {
namespace {

constexpr std::size_t kMostDims = 5;
constexpr std::uint64_t kLargestDim = 1ull << 32, kStrideLimit = 1ull << 40;
constexpr std::uint32_t kLargestBox = 256;

class Rules {
 public:
  explicit Rules(const TensorMapDescription& description) : map_(description) {}

  void check() const {
    check_rank();
    require(map_.base != nullptr, "base is null; it must be the address of the tensor");
    require(reinterpret_cast<std::uintptr_t>(map_.base) % 16 == 0,
            fmt::format("base {} is not aligned to 16 bytes", map_.base));
    for (std::size_t i = 0; i < map_.dims.size(); ++i) check_dim(i);
    for (std::size_t i = 0; i < map_.strides.size(); ++i) check_stride(i);
    for (std::size_t i = 0; i < map_.box.size(); ++i) check_box(i);
    check_inner_box();
  }

 private:
  void require(bool holds, const std::string& fact) const {
    if (!holds) throw Error(ErrorCode::config, fmt::format("{}: {}", map_.name, fact));
  }

  void check_rank() const {
    const std::size_t rank = map_.dims.size();
    require(rank >= 1 && rank <= kMostDims, fmt::format("{} dimensions; allowed 1 to {}", rank, kMostDims));
    require(map_.strides.size() == rank - 1,
            fmt::format("{} strides for {} dimensions; allowed {}, one for each but the innermost", map_.strides.size(),
                        rank, rank - 1));
    require(map_.box.size() == rank,
            fmt::format("{} box extents for {} dimensions; allowed one for each", map_.box.size(), rank));
  }

  void check_dim(std::size_t i) const {
    require(map_.dims[i] >= 1 && map_.dims[i] <= kLargestDim,
            fmt::format("dimension {} has {} elements; allowed 1 to 2^32", i, map_.dims[i]));
  }

  // The smallest extent is not asked of the driver's caller where a dimension has one element, nor is it by the driver.
  void check_stride(std::size_t i) const {
    const std::uint64_t stride = map_.strides[i];
    require(stride % 16 == 0, fmt::format("stride {} is {} bytes; allowed multiples of 16", i, stride));
    require(stride < kStrideLimit, fmt::format("stride {} is {} bytes; allowed below 2^40", i, stride));
  }

  void check_box(std::size_t i) const {
    require(map_.box[i] >= 1 && map_.box[i] <= kLargestBox,
            fmt::format("box extent {} is {} elements; allowed 1 to {}", i, map_.box[i], kLargestBox));
  }

  void check_inner_box() const {
    const std::uint32_t bytes = map_.box[0] * element_bytes(map_.element);
    require(bytes % 16 == 0, fmt::format("the box is {} bytes wide; allowed multiples of 16", bytes));
    const std::uint32_t span = span_bytes(map_.swizzle);
    require(span == 0 || bytes <= span,
            fmt::format("the box is {} bytes wide; allowed at most {} with a swizzle of {} bytes", bytes, span, span));
  }

  const TensorMapDescription& map_;
};

}  // namespace

std::uint32_t element_bytes(TensorElement element) noexcept {
  switch (element) {
    case TensorElement::uint8: return 1;
    case TensorElement::uint16:
    case TensorElement::float16:
    case TensorElement::bfloat16: return 2;
    case TensorElement::uint32:
    case TensorElement::float32: return 4;
  }
  return 0;
}

std::uint32_t span_bytes(TensorSwizzle swizzle) noexcept {
  constexpr std::uint32_t kSpans[] = {0, 32, 64, 128};
  return kSpans[static_cast<std::size_t>(swizzle)];
}

void check_tensor_map(const TensorMapDescription& description) { Rules(description).check(); }

TensorMap encode_for_cpu(const TensorMapDescription& description) {
  check_tensor_map(description);
  cpu::TensorMapLayout layout{};
  layout.signature = cpu::TensorMapLayout::kSignature;
  layout.rank = static_cast<std::uint8_t>(description.dims.size());
  layout.element_bytes = static_cast<std::uint8_t>(element_bytes(description.element));
  layout.span = static_cast<std::uint8_t>(span_bytes(description.swizzle));
  layout.base = reinterpret_cast<std::uint64_t>(description.base);
  std::copy(description.dims.begin(), description.dims.end(), layout.dims);
  std::copy(description.strides.begin(), description.strides.end(), layout.strides);
  std::copy(description.box.begin(), description.box.end(), layout.box);
  TensorMap map;
  std::memcpy(&map, &layout, sizeof map);
  return map;
}

}  // namespace moegen
