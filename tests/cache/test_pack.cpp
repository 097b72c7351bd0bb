// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include <moegen/error.hpp>

#include "cache/bytes.hpp"
#include "cache/pack.hpp"
#include "cache/support.hpp"

using namespace moegen;
using namespace moegen::cache;
using namespace moegen::cache::testing;

namespace {

std::vector<Entry> stubs(int count) {
  std::vector<Entry> entries;
  for (int i = 0; i < count; ++i) entries.push_back(stub_entry(fmt::format("kernel{}", i), 200 + i));
  return entries;
}

// The message with which a file of these bytes is refused; empty if it is accepted.
std::string refusal(const std::filesystem::path& path, const std::string& bytes) {
  write_text(path, bytes);
  try {
    Pack::open(path);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::cache);
    const std::string text = error.what();
    REQUIRE(text.starts_with(path.string() + ": "));
    return text.substr(path.string().size() + 2);
  }
  return {};
}

// The head of a pack with any records and a right digest.
std::string head(const std::vector<std::pair<std::string, std::uint64_t>>& records) {
  std::string out = "moegen pack\n";
  append_u32(out, kPackVersion);
  append_u64(out, records.size());
  for (const auto& [key, size] : records) {
    out += key;
    append_u64(out, size);
  }
  return out + raw_digest(out);
}

}  // namespace

TEST_CASE("a pack gives back every entry") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x.moegen-pack";
  const auto entries = stubs(50);
  write_pack(path, entries);
  const Pack pack = Pack::open(path);
  CHECK(pack.path() == path);
  CHECK(pack.keys().size() == 50);
  CHECK(std::is_sorted(pack.keys().begin(), pack.keys().end()));
  for (const Entry& entry : entries) {
    BadEntry bad;
    const auto found = pack.find(entry.key, bad);
    REQUIRE(found.has_value());
    CHECK(same(*found, entry));
  }
  BadEntry bad{"old"};
  CHECK_FALSE(pack.find(stub_key("other").digest(), bad).has_value());
  CHECK(bad.reason.empty());
  CHECK_FALSE(pack.find("", bad).has_value());
}

TEST_CASE("a pack has the same bytes whatever the order, and can be moved and deleted while open") {
  const ScratchFolder scratch;
  auto entries = stubs(9);
  write_pack(scratch.path() / "a", entries);
  std::reverse(entries.begin(), entries.end());
  entries.push_back(entries.front());
  write_pack(scratch.path() / "b", entries);
  CHECK(read_text(scratch.path() / "a") == read_text(scratch.path() / "b"));
  std::filesystem::rename(scratch.path() / "a", scratch.path() / "c");
  const Pack pack = Pack::open(scratch.path() / "c");
  std::filesystem::remove(scratch.path() / "c");
  BadEntry bad;
  CHECK(pack.find(entries[0].key, bad).has_value());
}

TEST_CASE("of two entries with one key the last compiler stays") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x";
  const Entry older = stub_entry("a", 100, "nvrtc-12.9"), newer = stub_entry("a", 100, "nvrtc-13.0");
  for (const auto& entries : {std::vector{older, newer}, std::vector{newer, older}}) {
    write_pack(path, entries);
    BadEntry bad;
    CHECK(Pack::open(path).find(older.key, bad)->compiler == "nvrtc-13.0");
  }
}

TEST_CASE("an empty pack is a pack, and a new pack is readable for others") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x";
  const mode_t old_mask = ::umask(022);
  write_pack(path, {});
  ::umask(old_mask);
  CHECK(Pack::open(path).keys().empty());
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0644);
}

TEST_CASE("a pack that cannot be written says why and leaves nothing") {
  const ScratchFolder scratch;
  const std::string missing = (scratch.path() / "none" / "x").string();
  CHECK_THROWS_WITH_AS(write_pack(missing, {}), (missing + ": cannot write: No such file or directory").c_str(), Error);
  const std::string folder = scratch.path().string();
  CHECK_THROWS_WITH_AS(write_pack(folder, {}), (folder + ": cannot write: exists and is not a regular file").c_str(),
                       Error);
  CHECK(std::filesystem::is_empty(scratch.path()));
  const std::string pipe = (scratch.path() / "pipe").string(), link = (scratch.path() / "link").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::create_symlink("pipe", link);
  for (const std::string& path : {pipe, link}) {
    CHECK_THROWS_WITH_AS(write_pack(path, {}), (path + ": cannot write: exists and is not a regular file").c_str(),
                         Error);
  }
  std::filesystem::remove(pipe);
  CHECK_THROWS_WITH_AS(write_pack(link, {}), (link + ": cannot write: No such file or directory").c_str(), Error);
  CHECK(std::filesystem::is_symlink(link));
}

TEST_CASE("a pack written to a link replaces the file behind it") {
  const ScratchFolder scratch;
  const auto link = scratch.path() / "link", target = scratch.path() / "target";
  write_text(target, "old");
  std::filesystem::create_symlink("target", link);
  write_pack(link, stubs(2));
  CHECK(std::filesystem::is_symlink(link));
  CHECK(Pack::open(target).keys().size() == 2);
}

TEST_CASE("what is not a pack is refused with its reason") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x";
  const std::string missing = (scratch.path() / "none").string(), folder = scratch.path().string();
  CHECK_THROWS_WITH_AS(Pack::open(missing), (missing + ": cannot open: No such file or directory").c_str(), Error);
  CHECK_THROWS_WITH_AS(Pack::open(folder), (folder + ": not a file; a pack is one regular file").c_str(), Error);
  const std::string pipe = (scratch.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(Pack::open(pipe), (pipe + ": not a file; a pack is one regular file").c_str(), Error);
  CHECK(refusal(path, "") == "not a moegen pack; 'moegen build -o' writes one");
  CHECK(refusal(path, "PK\3\4 and so on") == "not a moegen pack; 'moegen build -o' writes one");
  CHECK(refusal(path, "moegen pack\n") == "truncated: 12 bytes, its head alone has 24");
  std::string future = head({});
  future[12] = 9;
  CHECK(refusal(path, future) == "pack version 9; this moegen reads 1");
}

TEST_CASE("a pack cut at any length is refused, and so is a longer one") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x";
  write_pack(path, stubs(3));
  const std::string good = read_text(path);
  for (std::size_t length = 0; length < good.size(); ++length) {
    REQUIRE_FALSE(refusal(path, good.substr(0, length)).empty());
  }
  CHECK(refusal(path, good + "x") == "1 bytes too long");
  CHECK(refusal(path, good).empty());
}

TEST_CASE("any flipped byte of a pack is detected") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x";
  const auto entries = stubs(2);
  write_pack(path, entries);
  const std::string good = read_text(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
    if (!refusal(path, bytes).empty()) continue;
    const Pack pack = Pack::open(path);
    int bad_entries = 0;
    for (const std::string& key : pack.keys()) {
      BadEntry bad;
      if (pack.find(key, bad)) continue;
      CHECK_FALSE(bad.reason.empty());
      ++bad_entries;
    }
    REQUIRE(bad_entries == 1);
  }
}

TEST_CASE("an index that is wrong under a right digest is refused") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x";
  const std::string a(32, 'a'), b(32, 'b');
  CHECK(refusal(path, head({{std::string(32, 'g'), 0}})) == "index: key 0 is not 32 hex digits");
  CHECK(refusal(path, head({{b, 0}, {a, 0}})) == "index: key 1 is out of order");
  CHECK(refusal(path, head({{a, 0}, {a, 0}})) == "index: key 1 is out of order");
  CHECK(refusal(path, head({{a, 1}})) == "truncated: the entry of key " + a + " ends after the file");
  CHECK(refusal(path, head({{a, ~std::uint64_t{0}}})) == "truncated: the entry of key " + a + " ends after the file");
  std::string many = "moegen pack\n";
  append_u32(many, kPackVersion);
  append_u64(many, ~std::uint64_t{0});
  CHECK(refusal(path, many) == "truncated: 24 bytes are too few for its 18446744073709551615 entries");
  std::string flipped = head({{a, 0}});
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  CHECK(refusal(path, flipped) == "index: digest mismatch");
}

TEST_CASE("an entry under another key is refused") {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x";
  const std::string entry = encode(stub_entry("a"));
  const std::string key(32, '0');
  CHECK(refusal(path, head({{key, entry.size()}}) + entry).empty());
  BadEntry bad;
  CHECK_FALSE(Pack::open(path).find(key, bad).has_value());
  CHECK(bad.reason == "holds key " + stub_key("a").digest());
}
