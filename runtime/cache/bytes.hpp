// SPDX-License-Identifier: Apache-2.0
// Little-endian integers and digests as bytes: what the entry, pack and ledger files are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moegen::cache {

void append_u32(std::string& out, std::uint32_t value);
void append_u64(std::string& out, std::uint64_t value);

inline constexpr std::size_t kDigestBytes = 16;

/// XXH3-128 of `bytes`, big-endian as XXH128_canonical has it; its hexadecimal form is `digest_of`.
std::string raw_digest(std::string_view bytes);

/// Reads from the front of a text and says when it ends too early.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  std::optional<std::uint32_t> u32();
  std::optional<std::uint64_t> u64();
  std::optional<std::string_view> take(std::uint64_t count);
  std::uint64_t remaining() const noexcept { return rest_.size(); }

 private:
  std::string_view rest_;
};

}  // namespace moegen::cache
