// SPDX-License-Identifier: Apache-2.0
// An entry file, all integers little-endian:
//
//   entry   = magic version header_length header payload_length payload digest
//   magic   = "moegen entry\n"
//   version = u32, kFormatVersion
//   header_length = u32, at most kMaxHeaderBytes
//   header  = JSON object with exactly the members that header_of() writes
//   payload_length = u64, at least 1
//   digest  = 16 bytes, XXH3-128 of everything before it; nothing follows
//
// Format 1: first format.
#include "cache/entry.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include <moegen/error.hpp>

#include "cache/bytes.hpp"

namespace moegen::cache {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "moegen entry\n";
constexpr std::uint32_t kMaxHeaderBytes = 1 << 20;  // a header has about 1 KiB; a larger one is garbage

Json header_of(const Entry& entry) {
  Json fields = Json::array();
  for (const KeyField& field : entry.key_fields) fields.push_back({field.name, field.value});
  Json resources = Json::array();
  for (const EntryResources& r : entry.resources) {
    resources.push_back({{"entry", r.entry},
                         {"registers", r.registers},
                         {"spill_store_bytes", r.spill_store_bytes},
                         {"spill_load_bytes", r.spill_load_bytes},
                         {"stack_bytes", r.stack_bytes},
                         {"shared_bytes", r.shared_bytes}});
  }
  return {{"key", entry.key},
          {"key_fields", std::move(fields)},
          {"compiler", entry.compiler},
          {"kernel", entry.kernel},
          {"target", entry.target},
          {"arch", entry.arch},
          {"launch_abi", entry.launch_abi},
          {"args_bytes", entry.args_bytes},
          {"resources", std::move(resources)}};
}

std::string header_text(const Entry& entry) {
  std::string text;
  try {
    text = header_of(entry).dump();
  } catch (const Json::type_error&) {
    throw Error(ErrorCode::internal,
                fmt::format("a cache entry of kernel '{}' has text that is not UTF-8", entry.kernel));
  }
  if (text.size() <= kMaxHeaderBytes) return text;
  throw Error(ErrorCode::internal, fmt::format("a cache entry of kernel '{}' has a header of {} bytes; at most {}",
                                               entry.kernel, text.size(), kMaxHeaderBytes));
}

// Reads the members of one JSON object; the first that is missing or of the wrong type is remembered.
class HeaderReader {
 public:
  HeaderReader(const Json& object, std::string& problem) : object_(object), problem_(problem) {}

  void read(const char* name, std::string& out) const {
    const Json* value = member(name);
    if (value != nullptr && value->is_string()) {
      out = value->get_ref<const std::string&>();
    } else {
      fail(name, "a string");
    }
  }

  void read(const char* name, std::int64_t& out) const {
    const Json* value = member(name);
    if (value != nullptr && value->is_number_integer() && !is_huge(*value)) {
      out = value->get<std::int64_t>();
    } else {
      fail(name, "an integer");
    }
  }

  void read(const char* name, int& out) const {
    std::int64_t wide = 0;
    read(name, wide);
    if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) fail(name, "a small integer");
    out = static_cast<int>(wide);
  }

  const Json& array(const char* name) const {
    static const Json kEmpty = Json::array();
    const Json* value = member(name);
    if (value != nullptr && value->is_array()) return *value;
    fail(name, "an array");
    return kEmpty;
  }

 private:
  static bool is_huge(const Json& value) {
    return value.is_number_unsigned() &&
           value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }

  const Json* member(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  void fail(const char* name, const char* wanted) const {
    if (problem_.empty()) problem_ = fmt::format("header: '{}' is not {}", name, wanted);
  }

  const Json& object_;
  std::string& problem_;
};

KeyField read_key_field(const Json& pair, std::string& problem) {
  if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string()) {
    return {pair[0].get<std::string>(), pair[1].get<std::string>()};
  }
  if (problem.empty()) problem = "header: a key field is not a pair of strings";
  return {};
}

EntryResources read_resources(const Json& object, std::string& problem) {
  EntryResources r;
  const HeaderReader reader(object, problem);
  reader.read("entry", r.entry);
  reader.read("registers", r.registers);
  reader.read("spill_store_bytes", r.spill_store_bytes);
  reader.read("spill_load_bytes", r.spill_load_bytes);
  reader.read("stack_bytes", r.stack_bytes);
  reader.read("shared_bytes", r.shared_bytes);
  return r;
}

// Returns what is wrong with the header, empty if it was read whole into `entry`.
std::string read_header(std::string_view text, Entry& entry) {
  const Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return "header: not a JSON object";
  std::string problem;
  const HeaderReader reader(header, problem);
  reader.read("key", entry.key);
  reader.read("compiler", entry.compiler);
  reader.read("kernel", entry.kernel);
  reader.read("target", entry.target);
  reader.read("arch", entry.arch);
  reader.read("launch_abi", entry.launch_abi);
  reader.read("args_bytes", entry.args_bytes);
  for (const Json& pair : reader.array("key_fields")) entry.key_fields.push_back(read_key_field(pair, problem));
  for (const Json& object : reader.array("resources")) entry.resources.push_back(read_resources(object, problem));
  if (problem.empty() && CacheKey(entry.key_fields).digest() != entry.key) {
    problem = "header: 'key' is not the digest of 'key_fields'";
  }
  return problem;
}

// The parts of an entry file; views into it.
struct Frame {
  std::string_view header, payload, digest;
  std::string problem;
};

Frame bad_frame(std::string problem) { return {{}, {}, {}, std::move(problem)}; }

Frame split(std::string_view bytes) {
  ByteReader reader(bytes);
  if (reader.take(kMagic.size()) != kMagic) return bad_frame("not a moegen entry");
  const auto version = reader.u32();
  if (!version) return bad_frame("truncated");
  if (*version != kFormatVersion) {
    return bad_frame(fmt::format("format version {}, this moegen reads {}", *version, kFormatVersion));
  }
  const auto header_bytes = reader.u32();
  if (!header_bytes) return bad_frame("truncated");
  if (*header_bytes > kMaxHeaderBytes) return bad_frame(fmt::format("header of {} bytes", *header_bytes));
  const auto header = reader.take(*header_bytes);
  const auto payload_bytes = header ? reader.u64() : std::nullopt;
  const auto payload = payload_bytes ? reader.take(*payload_bytes) : std::nullopt;
  const auto digest = payload ? reader.take(kDigestBytes) : std::nullopt;
  if (!digest) return bad_frame("truncated");
  if (reader.remaining() != 0) return bad_frame(fmt::format("{} bytes too long", reader.remaining()));
  return {*header, *payload, *digest, ""};
}

// Returns what is wrong, empty if `bytes` were read whole into `entry`.
std::string decode_into(std::string_view bytes, Entry& entry) {
  if (bytes.empty()) return "empty file";
  const Frame frame = split(bytes);
  if (!frame.problem.empty()) return frame.problem;
  if (raw_digest(bytes.substr(0, bytes.size() - kDigestBytes)) != frame.digest) return "digest mismatch";
  if (frame.payload.empty()) return "empty payload";
  entry.payload = frame.payload;
  return read_header(frame.header, entry);
}

}  // namespace

std::string encode(const Entry& entry) {
  if (entry.payload.empty()) throw Error(ErrorCode::internal, "a cache entry has an empty payload");
  const std::string header = header_text(entry);
  std::string out(kMagic);
  append_u32(out, kFormatVersion);
  append_u32(out, static_cast<std::uint32_t>(header.size()));
  out += header;
  append_u64(out, entry.payload.size());
  out += entry.payload;
  out += raw_digest(out);
  return out;
}

std::optional<Entry> decode(std::string_view bytes, BadEntry& bad) {
  Entry entry;
  bad.reason = decode_into(bytes, entry);
  if (!bad.reason.empty()) return std::nullopt;
  return entry;
}

}  // namespace moegen::cache
