// SPDX-License-Identifier: Apache-2.0
// The reader of ptxas' report, on texts of several versions and on damaged ones.
#include <doctest/doctest.h>

#include <string>

#include "cuda/resource_report.hpp"

using namespace moegen;
using cuda::find_resources;
using cuda::first_diagnostic;
using cuda::parse_resource_report;

namespace {

// CUDA 13.0, sm_90a: one entry spills, one calls a function that is not inlined.
constexpr const char* kReport13 = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'two' for 'sm_90a'
ptxas info    : Function properties for two
ptxas         .     1936 bytes stack frame, 2036 bytes spill stores, 2232 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1936 bytes cumulative stack size
ptxas info    : Compile time = 125.108 ms
ptxas info    : Compiling entry function 'one' for 'sm_90a'
ptxas info    : Function properties for one
ptxas         .     160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 56 registers, used 1 barriers, 176 bytes cumulative stack size, 512 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 43.750 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
)";

// CUDA 12: the properties stand on an indented line of their own.
constexpr const char* kReport12 = R"(ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, 1024 bytes smem, 376 bytes cmem[0]
)";

}  // namespace

TEST_CASE("every entry point gets its own figures") {
  const auto entries = parse_resource_report(kReport13);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].entry == "two");
  CHECK(entries[0].registers == 32);
  CHECK(entries[0].spill_store_bytes == 2036);
  CHECK(entries[0].spill_load_bytes == 2232);
  CHECK(entries[0].stack_bytes == 1936);
  CHECK(entries[0].shared_bytes == 0);
  CHECK(entries[1].entry == "one");
  CHECK(entries[1].registers == 56);
  CHECK(entries[1].stack_bytes == 176);
  CHECK(entries[1].shared_bytes == 512);
}

TEST_CASE("spills of a function that was not inlined count for the entry point that calls it") {
  const auto entries = parse_resource_report(kReport13);
  REQUIRE(entries.size() == 2);
  CHECK(entries[1].spill_store_bytes == 12);
  CHECK(entries[1].spill_load_bytes == 8);
}

TEST_CASE("the older layout reads the same") {
  const auto entries = parse_resource_report(kReport12);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].registers == 18);
  CHECK(entries[0].shared_bytes == 1024);
}

TEST_CASE("texts that are no report give no entries") {
  CHECK(parse_resource_report("").empty());
  CHECK(parse_resource_report("nothing\n\n").empty());
  CHECK(parse_resource_report("Compiling entry function '").empty());
  CHECK(parse_resource_report("Compiling entry function ''").empty());
  CHECK(parse_resource_report("ptxas info    : Used 32 registers\n").empty());
}

TEST_CASE("numbers that do not fit are skipped") {
  const auto entries =
      parse_resource_report("Compiling entry function 'k' for\nUsed 99999999999999999999 registers, x bytes smem\n");
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].registers == 0);
  CHECK(entries[0].shared_bytes == 0);
}

TEST_CASE("every prefix of a report can be read") {
  const std::string report = kReport13;
  for (std::size_t length = 0; length <= report.size(); ++length)
    CHECK(parse_resource_report(report.substr(0, length)).size() <= 2);
}

TEST_CASE("an entry point is found by its whole name only") {
  const auto entries = parse_resource_report(kReport13);
  CHECK(find_resources(entries, "one") == &entries[1]);
  CHECK(find_resources(entries, "on") == nullptr);
}

TEST_CASE("the first diagnostic is the first error, else the first line") {
  CHECK(first_diagnostic("k.cu(2): warning: hm\n  x\nk.cu(3): error: no\nk.cu(4): error: later\n") ==
        "k.cu(3): error: no");
  CHECK(first_diagnostic("\n  \n  only this \r\n") == "only this");
  CHECK(first_diagnostic("ptxas fatal   : out of it") == "ptxas fatal   : out of it");
  CHECK(first_diagnostic("") == "no log");
  CHECK(first_diagnostic("\n\n") == "no log");
}
