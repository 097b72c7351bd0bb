// SPDX-License-Identifier: Apache-2.0
// The kernels of tests/cpu/bugs, how each is launched, and the bugs that are seeded into them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <moegen/cpu_target.hpp>

namespace moegen::test {

/// A correct kernel, `file` of tests/cpu/bugs: kernel(output, input, count), whose output is not all zero.
struct BugKernel {
  std::string_view file;
  std::uint32_t grid = 1, block = 32, cluster = 1;
  bool cooperative = false;
  std::uint32_t shared_bytes = 0;
  std::uint32_t count = 0;
  std::uint32_t input_words = 0, output_words = 0;
};

/// `wrong` in place of `right`, and the finding that this must give. Each side of the finding has a place, or a caller
/// of it, whose line in the text holds the side's pattern; races may have their sides either way round.
struct SeededBug {
  std::string_view name, file, right, wrong;
  CpuFinding finding;
  std::string_view side, other = "";
  /// What else is right to be found, where the order of threads decides what is seen first.
  std::vector<CpuFinding> also = {};
  std::string_view text = "";  ///< part of what the finding says
};

const std::vector<BugKernel>& bug_kernels();
const std::vector<SeededBug>& seeded_bugs();

}  // namespace moegen::test
