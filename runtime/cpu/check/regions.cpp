// SPDX-License-Identifier: Apache-2.0
#include "cpu/check/regions.hpp"

#include <algorithm>

namespace moegen::cpu {
namespace {

constexpr std::size_t kHints = 256;

}  // namespace

Regions::Regions(const Buffers* buffers, const std::vector<std::pair<const void*, std::size_t>>& constants)
    : last_(kHints) {
  if (buffers != nullptr)
    for (Buffer& buffer : buffers->all()) {
      Shadow shadow(buffer.begin, buffer.end - buffer.begin);
      regions_.push_back({std::move(buffer), std::move(shadow)});
    }
  for (const auto& [data, bytes] : constants) constants_.emplace_back(reinterpret_cast<std::uintptr_t>(data), bytes);
}

Region* Regions::find(std::uintptr_t address, std::uint32_t hint) noexcept {
  if (regions_.empty()) return nullptr;
  std::uint32_t& last = last_[hint % kHints];
  if (regions_[last].holds(address)) return &regions_[last];
  const auto above =
      std::upper_bound(regions_.begin(), regions_.end(), address,
                       [](std::uintptr_t value, const Region& region) { return value < region.buffer.begin; });
  if (above == regions_.begin() || !std::prev(above)->holds(address)) return nullptr;
  last = static_cast<std::uint32_t>(std::prev(above) - regions_.begin());
  return &regions_[last];
}

bool Regions::in_constants(std::uintptr_t address, std::size_t bytes) const noexcept {
  return std::ranges::any_of(constants_, [&](const auto& constant) {
    return address >= constant.first && address - constant.first + bytes <= constant.second;
  });
}

const Buffer* Regions::nearest(std::uintptr_t address) const noexcept {
  const auto distance = [&](const Region& region) {
    return address < region.buffer.begin ? region.buffer.begin - address : address - region.buffer.end + 1;
  };
  const auto nearest = std::ranges::min_element(regions_, {}, distance);
  return nearest != regions_.end() ? &nearest->buffer : nullptr;
}

}  // namespace moegen::cpu
