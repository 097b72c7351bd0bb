// SPDX-License-Identifier: Apache-2.0
// The main() of every doctest binary. A test that cannot run here ends the process with 125 (see support/skip.hpp).
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
