// SPDX-License-Identifier: Apache-2.0
// A pack file, all integers little-endian:
//
//   pack    = magic version count record* digest entry*
//   magic   = "moegen pack\n"
//   version = u32, kPackVersion
//   count   = u64, the number of records and of entries
//   record  = key (32 hex digits) size (u64, bytes of the entry); sorted by key, no key twice
//   digest  = 16 bytes, XXH3-128 of everything before it
//   entry   = an entry file as in entry.cpp; in the order of the records, without gaps; nothing follows
//
// Version 1: first version.
#include "cache/pack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include <moegen/error.hpp>

#include "cache/bytes.hpp"
#include "cache/file_system.hpp"

namespace moegen::cache {
namespace {

constexpr std::string_view kMagic = "moegen pack\n";
constexpr std::size_t kKeyBytes = 32;
constexpr std::uint64_t kHeadBytes = kMagic.size() + 4 + 8, kRecordBytes = kKeyBytes + 8;

// Of several entries with one key the last in (compiler, bytes) order wins, whatever order they came in.
std::map<std::string, std::string> encoded_by_key(const std::vector<Entry>& entries) {
  std::map<std::string, std::pair<std::string, std::string>> best;
  for (const Entry& entry : entries) {
    std::pair<std::string, std::string> candidate{entry.compiler, encode(entry)};
    auto& slot = best[entry.key];
    if (slot < candidate) slot = std::move(candidate);
  }
  std::map<std::string, std::string> encoded;
  for (auto& [key, slot] : best) encoded.emplace(key, std::move(slot.second));
  return encoded;
}

std::string pack_bytes(const std::vector<Entry>& entries) {
  const auto encoded = encoded_by_key(entries);
  std::string out(kMagic);
  append_u32(out, kPackVersion);
  append_u64(out, encoded.size());
  for (const auto& [key, bytes] : encoded) {
    out += key;
    append_u64(out, bytes.size());
  }
  out += raw_digest(out);
  for (const auto& [key, bytes] : encoded) out += bytes;
  return out;
}

std::error_code replace_file(const std::filesystem::path& path, const std::string& bytes) {
  FileSystem fs;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const std::string temporary = (folder / temporary_name()).string();
  if (const auto error = write_new_file(fs, AT_FDCWD, temporary, 0666, bytes)) return error;
  if (fs.rename_at(AT_FDCWD, temporary.c_str(), path.c_str()) != 0) {
    const std::error_code error = last_error();
    fs.unlink_at(AT_FDCWD, temporary.c_str());
    return error;
  }
  (void)sync_folder(fs, AT_FDCWD, folder.string());  // the pack is whole either way
  return {};
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& fact) {
  throw Error(ErrorCode::cache, fmt::format("{}: {}", path.string(), fact));
}

// Where the entry of a key lies.
struct Slot {
  std::uint64_t offset = 0, size = 0;
};

// A rename replaces a link itself; what is to be replaced is the file that it leads to.
std::filesystem::path behind_link(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error) refuse(path, fmt::format("cannot write: {}", error.message()));
  return target;
}

bool is_key(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

}  // namespace

struct Pack::State {
  std::filesystem::path path;
  UniqueFd fd;
  std::uint64_t file_bytes = 0;
  std::vector<std::string> keys;
  std::vector<Slot> slots;  // of keys, in the same order

  void open_file();
  std::string read_bytes(std::uint64_t offset, std::uint64_t count) const;
  std::uint64_t read_count() const;
  void read_index();
  void add_record(std::string_view key, std::uint64_t size, std::uint64_t& end);
};

void Pack::State::open_file() {
  FileSystem fs;
  fd = UniqueFd(fs.open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!fd || fs.stat(fd.get(), &status) != 0) refuse(path, fmt::format("cannot open: {}", last_error().message()));
  if (!S_ISREG(status.st_mode)) refuse(path, "not a file; a pack is one regular file");
  file_bytes = static_cast<std::uint64_t>(status.st_size);
}

std::string Pack::State::read_bytes(std::uint64_t offset, std::uint64_t count) const {
  FileSystem fs;
  std::string bytes;
  const std::error_code error = read_exactly(fs, fd.get(), offset, count, bytes);
  if (error) refuse(path, fmt::format("cannot read {} bytes at offset {}: {}", count, offset, error.message()));
  return bytes;
}

std::uint64_t Pack::State::read_count() const {
  const std::string head = read_bytes(0, std::min(kHeadBytes, file_bytes));
  if (!head.starts_with(kMagic)) refuse(path, "not a moegen pack; 'moegen build -o' writes one");
  ByteReader reader(std::string_view(head).substr(kMagic.size()));
  const auto version = reader.u32();
  if (version && *version != kPackVersion) {
    refuse(path, fmt::format("pack version {}; this moegen reads {}", *version, kPackVersion));
  }
  const auto count = version ? reader.u64() : std::nullopt;
  if (!count) refuse(path, fmt::format("truncated: {} bytes, its head alone has {}", file_bytes, kHeadBytes));
  if (*count > (file_bytes - kHeadBytes) / kRecordBytes) {
    refuse(path, fmt::format("truncated: {} bytes are too few for its {} entries", file_bytes, *count));
  }
  return *count;
}

void Pack::State::add_record(std::string_view key, std::uint64_t size, std::uint64_t& end) {
  if (!is_key(key)) refuse(path, fmt::format("index: key {} is not 32 hex digits", keys.size()));
  if (!keys.empty() && keys.back() >= key) refuse(path, fmt::format("index: key {} is out of order", keys.size()));
  if (size > file_bytes - end) refuse(path, fmt::format("truncated: the entry of key {} ends after the file", key));
  keys.emplace_back(key);
  slots.push_back({end, size});
  end += size;
}

void Pack::State::read_index() {
  const std::uint64_t count = read_count();
  const std::uint64_t body_bytes = kHeadBytes + count * kRecordBytes;
  std::uint64_t end = body_bytes + kDigestBytes;
  if (end > file_bytes) refuse(path, fmt::format("truncated: {} bytes, its index alone has {}", file_bytes, end));
  const std::string index = read_bytes(0, end);
  const std::string_view body = std::string_view(index).substr(0, body_bytes);
  if (raw_digest(body) != index.substr(body_bytes)) refuse(path, "index: digest mismatch");
  ByteReader reader(body.substr(kHeadBytes));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = *reader.take(kKeyBytes);
    add_record(key, *reader.u64(), end);
  }
  if (end != file_bytes) refuse(path, fmt::format("{} bytes too long", file_bytes - end));
}

Pack Pack::open(const std::filesystem::path& path) {
  auto state = std::make_shared<State>();
  state->path = path;
  state->open_file();
  state->read_index();
  return Pack(std::move(state));
}

const std::filesystem::path& Pack::path() const noexcept { return state_->path; }
const std::vector<std::string>& Pack::keys() const noexcept { return state_->keys; }

std::optional<Entry> Pack::find(std::string_view key, BadEntry& bad) const {
  bad.reason.clear();
  const auto found = std::lower_bound(state_->keys.begin(), state_->keys.end(), key);
  if (found == state_->keys.end() || *found != key) return std::nullopt;
  const Slot slot = state_->slots[static_cast<std::size_t>(found - state_->keys.begin())];
  FileSystem fs;
  std::string bytes;
  if (const auto error = read_exactly(fs, state_->fd.get(), slot.offset, slot.size, bytes)) {
    bad.reason = fmt::format("cannot read: {}", error.message());
    return std::nullopt;
  }
  std::optional<Entry> entry = decode(bytes, bad);
  if (!entry || entry->key == key) return entry;
  bad.reason = fmt::format("holds key {}", entry->key);
  return std::nullopt;
}

void write_pack(const std::filesystem::path& path, const std::vector<Entry>& entries) {
  const std::filesystem::path target = behind_link(path);
  std::error_code ignored;
  if (std::filesystem::exists(target, ignored) && !std::filesystem::is_regular_file(target, ignored)) {
    refuse(path, "cannot write: exists and is not a regular file");
  }
  const std::string bytes = pack_bytes(entries);
  if (const auto error = replace_file(target, bytes)) refuse(path, fmt::format("cannot write: {}", error.message()));
}

}  // namespace moegen::cache
