// SPDX-License-Identifier: Apache-2.0
#include "verify/guarded_buffer.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace moegen::verify {

GuardedBuffer::GuardedBuffer(Target target, std::string name, std::size_t bytes, unsigned char poison)
    : name_(std::move(name)),
      bytes_(bytes),
      poison_(poison),
      memory_(target, name_, bytes + 2 * kGuardBytes, kGuardBytes) {
  reset();
}

void GuardedBuffer::reset() const {
  memory_.fill(kGuardByte);
  if (bytes_ == 0) return;
  const std::vector<char> poison(std::min<std::size_t>(bytes_, std::size_t{1} << 24), static_cast<char>(poison_));
  for (std::size_t at = 0; at < bytes_; at += poison.size())
    memory_.upload(poison.data(), std::min(poison.size(), bytes_ - at), kGuardBytes + at);
}

std::vector<char> GuardedBuffer::download() const {
  std::vector<char> bytes(bytes_);
  if (bytes_ > 0) memory_.download(bytes.data(), bytes_, kGuardBytes);
  return bytes;
}

std::optional<std::string> GuardedBuffer::damage() const {
  std::vector<char> guards(2 * kGuardBytes);
  memory_.download(guards.data(), kGuardBytes, 0);
  memory_.download(guards.data() + kGuardBytes, kGuardBytes, kGuardBytes + bytes_);
  for (std::size_t i = 0; i < guards.size(); ++i) {
    if (guards[i] == static_cast<char>(kGuardByte)) continue;
    const auto at =
        static_cast<std::int64_t>(i < kGuardBytes ? i : i + bytes_) - static_cast<std::int64_t>(kGuardBytes);
    return fmt::format("{}: byte {} was written; the tensor has bytes 0..{}", name_, at,
                       static_cast<std::int64_t>(bytes_) - 1);
  }
  return std::nullopt;
}

}  // namespace moegen::verify
