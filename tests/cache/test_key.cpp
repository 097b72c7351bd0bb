// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "cache/key.hpp"

using namespace moegen::cache;

TEST_CASE("the digest is XXH3-128") {
  // Values of the reference tool: printf '' | xxhsum -H2; printf 'abc' | xxhsum -H2
  CHECK(digest_of("") == "99aa06d3014798d86001c324468d497f");
  CHECK(digest_of("abc") == "06b05ab6733a618578af5f94892f3950");
}

TEST_CASE("a key names its fields") {
  const CacheKey key = make_key("cuda", "sm_90a", {"--std=c++20", "-O3"}, "abc");
  const std::vector<KeyField> expected{{"format", "1"},    {"target", "cuda"},
                                       {"arch", "sm_90a"}, {"flag", "--std=c++20"},
                                       {"flag", "-O3"},    {"source", "06b05ab6733a618578af5f94892f3950 3 bytes"}};
  CHECK(key.fields() == expected);
  CHECK(key.digest().size() == 32);
}

TEST_CASE("two fields cannot run together, and every part of a key counts") {
  std::set<std::string> digests;
  const auto add = [&](const std::vector<KeyField>& fields) { digests.insert(CacheKey(fields).digest()); };
  add({});
  add({{"a", "bc"}});
  add({{"ab", "c"}});
  add({{"", "abc"}});
  add({{"abc", ""}});
  add({{"a", "b"}, {"c", ""}});
  add({{"a", ""}, {"b", "c"}});
  add({{"a", "b"}, {"", "c"}});
  CHECK(digests.size() == 8);
}

TEST_CASE("target, arch, flags, their order and the source change the key") {
  std::set<std::string> digests;
  digests.insert(make_key("cuda", "sm_90", {"-a", "-b"}, "x").digest());
  digests.insert(make_key("cuda", "sm_90a", {"-a", "-b"}, "x").digest());
  digests.insert(make_key("cpu", "sm_90", {"-a", "-b"}, "x").digest());
  digests.insert(make_key("cuda", "sm_90", {"-b", "-a"}, "x").digest());
  digests.insert(make_key("cuda", "sm_90", {"-a -b"}, "x").digest());
  digests.insert(make_key("cuda", "sm_90", {"-a"}, "x").digest());
  digests.insert(make_key("cuda", "sm_90", {"-a", "-b"}, "y").digest());
  CHECK(digests.size() == 7);
  CHECK(make_key("cuda", "sm_90", {"-a"}, "x").digest() == make_key("cuda", "sm_90", {"-a"}, "x").digest());
}
