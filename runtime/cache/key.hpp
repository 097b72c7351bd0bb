// SPDX-License-Identifier: Apache-2.0
// CacheKey: what makes two compiled kernels the same, as readable named fields and as their digest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moegen::cache {

/// Version of the entry format below; part of every key, so a new format never meets an old file under its name.
inline constexpr int kFormatVersion = 1;

struct KeyField {
  std::string name, value;
  bool operator==(const KeyField&) const = default;
};

/// Ordered named fields and their 128-bit digest (XXH3, 32 hex digits). Each field enters the digest with its name and
/// both lengths, so two fields cannot run together. No path, time, PTX or token count is ever a field.
class CacheKey {
 public:
  explicit CacheKey(std::vector<KeyField> fields);
  const std::vector<KeyField>& fields() const noexcept { return fields_; }
  const std::string& digest() const noexcept { return digest_; }

 private:
  std::vector<KeyField> fields_;
  std::string digest_;
};

/// The key of a kernel: format version, target, arch, flags (one field each, in order) and the source text.
/// The source enters as its own digest and length (field "source"), so that entries stay small.
CacheKey make_key(std::string_view target, std::string_view arch, const std::vector<std::string>& flags,
                  std::string_view source);

/// 32 hex digits of XXH3-128 over `bytes`.
std::string digest_of(std::string_view bytes);

}  // namespace moegen::cache
