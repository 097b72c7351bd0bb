// SPDX-License-Identifier: Apache-2.0
// How a test says that it cannot run on this machine.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace moegen::test {

/// What CTest counts as skipped (SKIP_RETURN_CODE in tests/CMakeLists.txt).
inline constexpr int kSkipped = 125;

/// Ends the process as skipped, saying `why` on standard error.
[[noreturn]] inline void skip(const std::string& why) {
  std::fprintf(stderr, "skipped: %s\n", why.c_str());
  std::_Exit(kSkipped);
}

/// The same for a test that needs a GPU: a failure where MOEGEN_REQUIRE_GPU=1 says that there must be one.
[[noreturn]] inline void skip_without_gpu(const std::string& why) {
  const char* required = std::getenv("MOEGEN_REQUIRE_GPU");
  if (!required || std::string(required) != "1") skip(why);
  std::fprintf(stderr, "failed: MOEGEN_REQUIRE_GPU=1, but %s\n", why.c_str());
  std::_Exit(1);
}

}  // namespace moegen::test
