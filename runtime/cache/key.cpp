// SPDX-License-Identifier: Apache-2.0
#include "cache/key.hpp"

#include <fmt/format.h>

#include "cache/bytes.hpp"

namespace moegen::cache {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

// Name and value with their lengths before them: {"ab", "c"} and {"a", "bc"} give different bytes.
std::string canonical_bytes(const std::vector<KeyField>& fields) {
  std::string out;
  for (const KeyField& field : fields) {
    append_u64(out, field.name.size());
    out += field.name;
    append_u64(out, field.value.size());
    out += field.value;
  }
  return out;
}

}  // namespace

std::string digest_of(std::string_view bytes) { return hex(raw_digest(bytes)); }

CacheKey::CacheKey(std::vector<KeyField> fields)
    : fields_(std::move(fields)), digest_(digest_of(canonical_bytes(fields_))) {}

CacheKey make_key(std::string_view target, std::string_view arch, const std::vector<std::string>& flags,
                  std::string_view source) {
  std::vector<KeyField> fields{
      {"format", std::to_string(kFormatVersion)}, {"target", std::string(target)}, {"arch", std::string(arch)}};
  for (const std::string& flag : flags) fields.push_back({"flag", flag});
  fields.push_back({"source", fmt::format("{} {} bytes", digest_of(source), source.size())});
  return CacheKey(std::move(fields));
}

}  // namespace moegen::cache
