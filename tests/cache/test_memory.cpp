// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "cache/memory.hpp"
#include "cache/support.hpp"

using namespace moegen::cache;
using moegen::cache::testing::stub_entry;

namespace {

std::shared_ptr<const Entry> shared_stub(const std::string& name) {
  return std::make_shared<const Entry>(stub_entry(name, 100));
}

}  // namespace

TEST_CASE("memory answers the question that was asked before, and any compiler if none is named") {
  Memory memory(1000);
  const auto entry = shared_stub("a");
  CHECK(memory.find("k", "x") == nullptr);
  CHECK(memory.insert("k", "x", entry) == entry);
  CHECK(memory.find("k", "x") == entry);
  CHECK(memory.find("k", "") == entry);
  CHECK(memory.find("k", "y") == nullptr);
  CHECK(memory.find("l", "x") == nullptr);
}

TEST_CASE("memory keeps the first of two answers") {
  Memory memory(1000);
  const auto first = shared_stub("a"), second = shared_stub("a");
  memory.insert("k", "x", first);
  CHECK(memory.insert("k", "x", second) == first);
  CHECK(memory.insert("k", "y", second) == second);
}

TEST_CASE("memory forgets what came first when it is full") {
  Memory memory(250);
  for (const char* name : {"a", "b", "c"}) memory.insert(name, "x", shared_stub(name));
  CHECK(memory.find("a", "x") == nullptr);
  CHECK(memory.find("b", "x") != nullptr);
  CHECK(memory.find("c", "x") != nullptr);
  Memory tiny(1);
  tiny.insert("a", "x", shared_stub("a"));
  CHECK(tiny.find("a", "x") != nullptr);
  tiny.insert("b", "x", shared_stub("b"));
  CHECK(tiny.find("a", "x") == nullptr);
  CHECK(tiny.find("b", "x") != nullptr);
}
