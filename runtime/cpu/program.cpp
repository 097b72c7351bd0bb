// SPDX-License-Identifier: Apache-2.0
#include "cpu/program.hpp"

#include <algorithm>

namespace moegen::cpu {

const HostProgram::Entry* HostProgram::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace moegen::cpu
