// SPDX-License-Identifier: Apache-2.0
// libmoegen_cpu.so, loaded by dlopen when the CPU target is asked for: a launcher that does not ask never pays for
// LLVM.
#pragma once

#include <string>
#include <vector>

namespace moegen::cpu {

class Target;

/// The CPU target, loaded once per process; null if this machine does not have it, and then `why`, if given, says what
/// was tried and how to get it.
const Target* load_target(std::string* why = nullptr);

/// The files that load_target tries, in order.
std::vector<std::string> target_candidates();

}  // namespace moegen::cpu
