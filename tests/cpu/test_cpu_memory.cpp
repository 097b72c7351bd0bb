// SPDX-License-Identifier: Apache-2.0
// Memory of the CPU target, the list of known ranges, and findings as text.
#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/cpu_target.hpp>
#include <moegen/error.hpp>

#include "cpu/buffers.hpp"

namespace {

using namespace moegen;
using cpu::Buffers;

std::string error_of(auto&& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::config);
    return error.what();
  }
  return "";
}

std::uintptr_t address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

CpuReport race() {
  return {
      .finding = CpuFinding::race_shared,
      .what = "shared+0x10: a write of 4 bytes and an earlier read of it are not ordered",
      .parties = {{2, 3, "write of 4 bytes", "kernel.cu:12 in run"}, {2, 40, "read of 4 bytes", "kernel.cu:20 in run"}},
      .repeats = 0};
}

}  // namespace

TEST_CASE("a buffer is aligned, filled with a pattern and known by name") {
  const CpuBuffer buffer(1000, "output");
  REQUIRE(buffer.size() == 1000);
  CHECK(address_of(buffer.data()) % 256 == 0);
  const auto* bytes = static_cast<const unsigned char*>(buffer.data());
  CHECK(std::all_of(bytes, bytes + 1000, [](unsigned char byte) { return byte == 0xCD; }));
  const auto known = Buffers::process().find(address_of(bytes) + 999);
  REQUIRE(known.has_value());
  CHECK(known->name == "output");
  CHECK_FALSE(Buffers::process().find(address_of(bytes) + 1000).has_value());
  CHECK_FALSE(Buffers::process().find(address_of(bytes) - 1).has_value());
}

TEST_CASE("a buffer is known as long as it lives, wherever it is moved") {
  std::uintptr_t first = 0, second = 0;
  {
    CpuBuffer a(64, "a");
    CpuBuffer b(64, "b");
    first = address_of(a.data());
    second = address_of(b.data());
    CpuBuffer moved(std::move(a));
    CHECK(address_of(moved.data()) == first);
    moved = std::move(b);
    CHECK(address_of(moved.data()) == second);
    CHECK(Buffers::process().find(second)->name == "b");
  }
  CHECK_FALSE(Buffers::process().find(first).has_value());
  CHECK_FALSE(Buffers::process().find(second).has_value());
}

TEST_CASE("an empty buffer has no memory") {
  const CpuBuffer buffer(0, "nothing");
  CHECK(buffer.data() == nullptr);
  CHECK(buffer.size() == 0);
}

TEST_CASE("no two buffers touch") {
  std::vector<CpuBuffer> buffers;
  for (int i = 0; i < 50; ++i) buffers.emplace_back(256, "b" + std::to_string(i));
  for (const CpuBuffer& buffer : buffers)
    CHECK_FALSE(Buffers::process().find(address_of(buffer.data()) + 256).has_value());
}

TEST_CASE("memory of the caller's is registered and unregistered") {
  const std::vector<char> memory(128);
  register_cpu_memory(memory.data(), 128, "mine");
  CHECK(Buffers::process().find(address_of(memory.data()) + 127)->name == "mine");
  CHECK(error_of([&] { register_cpu_memory(memory.data() + 127, 10, "other"); }) ==
        "memory 'other': overlaps 'mine', which is already known; unregister that first");
  CHECK(error_of([&] { register_cpu_memory(memory.data() - 1, 1, "before"); }).empty());
  unregister_cpu_memory(memory.data() - 1);
  unregister_cpu_memory(memory.data());
  CHECK_FALSE(Buffers::process().find(address_of(memory.data())).has_value());
  CHECK(error_of([] { register_cpu_memory(nullptr, 4, "null"); }) ==
        "memory 'null': 4 bytes at 0x0; a range of one byte or more is needed");
  CHECK(error_of([] { unregister_cpu_memory(reinterpret_cast<const void*>(0x10)); }) ==
        "memory at 0x10: no known range starts there; only what was registered can be unregistered");
}

TEST_CASE("ranges are found by address and by distance") {
  Buffers buffers;
  CHECK_FALSE(buffers.nearest(5).has_value());
  CHECK_FALSE(buffers.add({100, 200, "low"}).has_value());
  CHECK_FALSE(buffers.add({300, 400, "high"}).has_value());
  CHECK(buffers.add({150, 350, "both"})->name == "high");
  CHECK(buffers.add({50, 101, "left"})->name == "low");
  CHECK_FALSE(buffers.add({200, 300, "between"}).has_value());
  CHECK(buffers.remove(200));
  CHECK_FALSE(buffers.remove(201));
  CHECK(buffers.nearest(50)->name == "low");
  CHECK(buffers.nearest(150)->name == "low");
  CHECK(buffers.nearest(249)->name == "low");
  CHECK(buffers.nearest(290)->name == "high");
  CHECK(buffers.nearest(5000)->name == "high");
  CHECK(buffers.all().size() == 2);
}

TEST_CASE("buffers come and go on several threads") {
  const std::size_t before = Buffers::process().all().size();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int j = 0; j < 200; ++j) {
        const CpuBuffer buffer(64, "b");
        if (!Buffers::process().find(address_of(buffer.data()))) std::abort();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(Buffers::process().all().size() == before);
}

TEST_CASE("a report reads well") {
  CpuReport report = race();
  CHECK(report.text() ==
        "race in shared memory: shared+0x10: a write of 4 bytes and an earlier read of it are not ordered\n"
        "  block 2, thread 3: write of 4 bytes\n"
        "    at kernel.cu:12 in run\n"
        "  earlier, block 2, thread 40: read of 4 bytes\n"
        "    at kernel.cu:20 in run\n");
  report.repeats = 1;
  CHECK(report.text().ends_with("  and 1 more time at the same places\n"));
  report.parties.pop_back();
  report.repeats = 12;
  CHECK(report.text().ends_with("  and 12 more times at the same place\n"));
}
