// SPDX-License-Identifier: Apache-2.0
#include "cache/bytes.hpp"

#include <xxhash.h>

#include <cstring>

namespace moegen::cache {
namespace {

void append_little_endian(std::string& out, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

std::uint64_t read_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

}  // namespace

void append_u32(std::string& out, std::uint32_t value) { append_little_endian(out, value, 4); }
void append_u64(std::string& out, std::uint64_t value) { append_little_endian(out, value, 8); }

std::string raw_digest(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return {reinterpret_cast<const char*>(canonical.digest), kDigestBytes};
}

std::optional<std::string_view> ByteReader::take(std::uint64_t count) {
  if (count > rest_.size()) return std::nullopt;
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::optional<std::uint32_t> ByteReader::u32() {
  const auto bytes = take(4);
  if (!bytes) return std::nullopt;
  return static_cast<std::uint32_t>(read_little_endian(*bytes));
}

std::optional<std::uint64_t> ByteReader::u64() {
  const auto bytes = take(8);
  if (!bytes) return std::nullopt;
  return read_little_endian(*bytes);
}

}  // namespace moegen::cache
