// SPDX-License-Identifier: Apache-2.0
// What a launch on the CPU target throws.
#include <utility>

#include <fmt/format.h>

#include <moegen/cpu_target.hpp>

namespace moegen {
namespace {

std::string headline(const std::string& label, const std::vector<CpuReport>& reports) {
  const CpuReport& first = reports.front();
  std::string line = fmt::format("{}: {}: {}", label, to_string(first.finding), first.what);
  if (!first.parties.empty())
    line += fmt::format(" (block {}, thread {}, at {})", first.parties[0].block, first.parties[0].thread,
                        first.parties[0].place);
  if (reports.size() > 1) line += fmt::format("; and {} more", reports.size() - 1);
  return line;
}

}  // namespace

KernelError::KernelError(const std::string& label, std::vector<CpuReport> reports)
    : Error(ErrorCode::kernel, headline(label, reports)), reports_(std::move(reports)) {}

std::string KernelError::text() const {
  std::string text;
  for (const CpuReport& report : reports_) text += report.text();
  return text;
}

}  // namespace moegen
