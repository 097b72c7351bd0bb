// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include <moegen/arch.hpp>
#include <moegen/error.hpp>

using namespace moegen;

TEST_CASE("a device gets the best arch that runs on it") {
  CHECK(arch_for_device(9, 0)->name == "sm_90a");
  CHECK(arch_for_device(8, 9)->name == "sm_89");
  CHECK(arch_for_device(8, 7)->name == "sm_86");
  CHECK(arch_for_device(10, 3)->name == "sm_103a");
  CHECK(arch_for_device(7, 5) == nullptr);
  CHECK(arch_for_device(12, 1) == nullptr);
}

TEST_CASE("an accelerated arch runs on exactly its own capability") {
  CHECK(runs_on(find_arch("sm_90a"), 9, 0));
  CHECK_FALSE(runs_on(find_arch("sm_90a"), 10, 0));
  CHECK(runs_on(find_arch("sm_80"), 8, 6));
  CHECK_FALSE(runs_on(find_arch("sm_86"), 8, 0));
}

TEST_CASE("an unknown arch is refused with a suggestion") {
  CHECK_THROWS_WITH_AS(find_arch("sm90a"),
                       "arch 'sm90a' is not known; allowed sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100a, sm_103a, "
                       "sm_120a; did you mean 'sm_90a'?",
                       Error);
}
