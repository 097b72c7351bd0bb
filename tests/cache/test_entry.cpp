// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <moegen/error.hpp>

#include "cache/bytes.hpp"
#include "cache/entry.hpp"
#include "cache/support.hpp"

using namespace moegen;
using namespace moegen::cache;
using moegen::cache::testing::same;
using moegen::cache::testing::stub_entry;

namespace {

std::string reason_of(const std::string& bytes) {
  BadEntry bad;
  CHECK_FALSE(decode(bytes, bad).has_value());
  return bad.reason;
}

// An entry file with `header` in place of its own, and everything else right.
std::string with_header(const std::string& header) {
  std::string out = "moegen entry\n";
  append_u32(out, kFormatVersion);
  append_u32(out, static_cast<std::uint32_t>(header.size()));
  out += header;
  append_u64(out, 4);
  out +=
      "\x7f"
      "ELF";
  return out + raw_digest(out);
}

}  // namespace

TEST_CASE("an entry reads back as it was written") {
  const Entry entry = stub_entry("create_indices", 1000);
  BadEntry bad{"old"};
  const auto read = decode(encode(entry), bad);
  REQUIRE(read.has_value());
  CHECK(bad.reason.empty());
  CHECK(read->key_fields == entry.key_fields);
  CHECK(read->key == entry.key);
  CHECK(read->compiler == "nvrtc-13.0");
  CHECK(read->kernel == "create_indices");
  CHECK(read->target == "cuda");
  CHECK(read->arch == "sm_90a");
  CHECK(read->launch_abi == 1);
  CHECK(read->args_bytes == 96);
  REQUIRE(read->resources.size() == 1);
  CHECK(read->resources[0].entry == "moegen_create_indices");
  CHECK(read->resources[0].registers == 40);
  CHECK(read->resources[0].stack_bytes == 16);
  CHECK(read->resources[0].shared_bytes == 1024);
  CHECK(read->payload == entry.payload);
  CHECK(same(*read, entry));
}

TEST_CASE("the header of an entry is readable") {
  const std::string bytes = encode(stub_entry("finalize"));
  CHECK(bytes.starts_with("moegen entry\n"));
  CHECK(bytes.find(R"("compiler":"nvrtc-13.0")") != std::string::npos);
  CHECK(bytes.find(R"(["arch","sm_90a"])") != std::string::npos);
}

TEST_CASE("what cannot be stored is refused when written") {
  Entry entry = stub_entry("finalize");
  entry.compiler = "\xff";
  CHECK_THROWS_WITH_AS(encode(entry), "a cache entry of kernel 'finalize' has text that is not UTF-8", Error);
  entry = stub_entry("finalize");
  entry.payload.clear();
  CHECK_THROWS_WITH_AS(encode(entry), "a cache entry has an empty payload", Error);
  entry = stub_entry("finalize");
  entry.kernel = std::string(2 << 20, 'x');
  CHECK_THROWS_AS(encode(entry), Error);
}

TEST_CASE("any flipped bit of an entry is detected") {
  const Entry entry = stub_entry("finalize");
  const std::string good = encode(entry);
  REQUIRE(good.size() > 700);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      BadEntry bad;
      REQUIRE_FALSE(decode(bytes, bad).has_value());
      REQUIRE_FALSE(bad.reason.empty());
    }
  }
}

TEST_CASE("an entry cut at any length is detected, and so is a longer one") {
  const std::string good = encode(stub_entry("finalize"));
  for (std::size_t length = 0; length < good.size(); ++length) {
    BadEntry bad;
    REQUIRE_FALSE(decode(std::string_view(good).substr(0, length), bad).has_value());
    REQUIRE_FALSE(bad.reason.empty());
  }
  CHECK(reason_of(good + "x") == "1 bytes too long");
}

TEST_CASE("a bad entry says why") {
  const std::string good = encode(stub_entry("finalize"));
  CHECK(reason_of("") == "empty file");
  CHECK(reason_of("#!/bin/sh\nexit 0\n") == "not a moegen entry");
  CHECK(reason_of("moegen entry\n") == "truncated");
  CHECK(reason_of(good.substr(0, 100)) == "truncated");
  std::string other = good;
  other[13] = 2;
  CHECK(reason_of(other) == "format version 2, this moegen reads 1");
  other = good;
  other[19] = 0x7f;
  CHECK(reason_of(other).starts_with("header of "));
  other = good;
  other.back() = static_cast<char>(other.back() ^ 1);
  CHECK(reason_of(other) == "digest mismatch");
}

TEST_CASE("a header that is wrong under a right digest is refused") {
  const std::string good = encode(stub_entry("finalize"));
  const std::string header = good.substr(21, good.find('\x7f') - 8 - 21);
  REQUIRE(header.front() == '{');
  REQUIRE(header.back() == '}');
  BadEntry bad;
  CHECK(decode(with_header(header), bad).has_value());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = header;
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    return reason_of(with_header(text));
  };
  CHECK(reason_of(with_header("")) == "header: not a JSON object");
  CHECK(reason_of(with_header("[]")) == "header: not a JSON object");
  CHECK(reason_of(with_header("{}")) == "header: 'key' is not a string");
  CHECK(reason_of(with_header(std::string(100000, '['))) == "header: not a JSON object");
  CHECK(changed("\"arch\":\"sm_90a\"", "\"arch\":90") == "header: 'arch' is not a string");
  CHECK(changed("\"launch_abi\":1", "\"launch_abi\":1.5") == "header: 'launch_abi' is not an integer");
  CHECK(changed("\"launch_abi\":1", "\"launch_abi\":4294967297") == "header: 'launch_abi' is not a small integer");
  CHECK(changed("\"args_bytes\":96", "\"args_bytes\":18446744073709551615") ==
        "header: 'args_bytes' is not an integer");
  CHECK(changed("[\"arch\",\"sm_90a\"]", "[\"arch\"]") == "header: a key field is not a pair of strings");
  CHECK(changed("[\"arch\",\"sm_90a\"]", "[\"arch\",\"sm_90b\"]") == "header: 'key' is not the digest of 'key_fields'");
  CHECK(changed("\"registers\":40", "\"registers\":\"40\"") == "header: 'registers' is not an integer");
  CHECK(changed("\"resources\":[{", "\"resources\":{\"x\":[{") == "header: not a JSON object");
}
