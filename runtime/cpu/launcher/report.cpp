// SPDX-License-Identifier: Apache-2.0
// Findings of the CPU target as text.
#include <iterator>

#include <fmt/format.h>

#include <moegen/cpu_target.hpp>

namespace moegen {
namespace {

bool is_race(CpuFinding finding) noexcept {
  return finding == CpuFinding::race_shared || finding == CpuFinding::race_global;
}

}  // namespace

std::string_view to_string(CpuFinding finding) noexcept {
  switch (finding) {
    case CpuFinding::deadlock: return "deadlock";
    case CpuFinding::out_of_bounds: return "out of bounds";
    case CpuFinding::misaligned: return "misaligned access";
    case CpuFinding::unwritten_shared: return "unwritten shared memory";
    case CpuFinding::race_shared: return "race in shared memory";
    case CpuFinding::race_global: return "race in global memory";
    case CpuFinding::divergence: return "divergence";
    case CpuFinding::misuse: return "misuse";
    case CpuFinding::fault: return "fault";
  }
  return "unknown finding";
}

std::string CpuReport::text() const {
  std::string text = fmt::format("{}: {}\n", to_string(finding), what);
  for (std::size_t i = 0; i < parties.size(); ++i) {
    const CpuParty& party = parties[i];
    fmt::format_to(std::back_inserter(text), "  {}block {}, thread {}: {}\n    at {}\n",
                   is_race(finding) && i > 0 ? "earlier, " : "", party.block, party.thread, party.action, party.place);
  }
  if (repeats > 0)
    fmt::format_to(std::back_inserter(text), "  and {} more {} at the same place{}\n", repeats,
                   repeats == 1 ? "time" : "times", parties.size() == 1 ? "" : "s");
  return text;
}

}  // namespace moegen
