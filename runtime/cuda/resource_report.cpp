// SPDX-License-Identifier: Apache-2.0
#include "cuda/resource_report.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace moegen::cuda {
namespace {

constexpr std::string_view kEntryLine = "Compiling entry function '";

/// Cuts the first line off `text`.
std::string_view take_line(std::string_view& text) noexcept {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// The number that stands right before `phrase`, e.g. 16 in "used 1 barriers, 16 bytes smem".
std::optional<int> number_before(std::string_view line, std::string_view phrase) noexcept {
  const std::size_t end = line.find(phrase);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  int value = 0;
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, value);
  if (error != std::errc{} || stop != line.data() + end) return std::nullopt;
  return value;
}

std::optional<std::string_view> entry_name(std::string_view line) noexcept {
  const std::size_t at = line.find(kEntryLine);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + kEntryLine.size());
  const std::size_t end = rest.find('\'');
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  return rest.substr(0, end);
}

void read_line(std::string_view line, EntryResources& entry) noexcept {
  if (const auto value = number_before(line, " bytes stack frame"))
    entry.stack_bytes = std::max(entry.stack_bytes, *value);
  if (const auto value = number_before(line, " bytes cumulative stack size"))
    entry.stack_bytes = std::max(entry.stack_bytes, *value);
  if (const auto value = number_before(line, " bytes spill stores")) entry.spill_store_bytes += *value;
  if (const auto value = number_before(line, " bytes spill loads")) entry.spill_load_bytes += *value;
  if (const auto value = number_before(line, " registers")) entry.registers = *value;
  if (const auto value = number_before(line, " bytes smem")) entry.shared_bytes = *value;
}

std::string_view trimmed(std::string_view line) noexcept {
  const std::size_t begin = line.find_first_not_of(" \t");
  const std::size_t end = line.find_last_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view{} : line.substr(begin, end + 1 - begin);
}

}  // namespace

std::vector<EntryResources> parse_resource_report(std::string_view log) {
  std::vector<EntryResources> entries;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (const auto name = entry_name(line)) {
      entries.push_back({.entry = std::string(*name)});
    } else if (!entries.empty()) {
      read_line(line, entries.back());
    }
  }
  return entries;
}

const EntryResources* find_resources(const std::vector<EntryResources>& resources, std::string_view entry) noexcept {
  const auto found = std::ranges::find(resources, entry, &EntryResources::entry);
  return found == resources.end() ? nullptr : &*found;
}

std::string_view first_diagnostic(std::string_view log) noexcept {
  std::string_view first;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos)
      return trimmed(line);
    if (first.empty()) first = trimmed(line);
  }
  return first.empty() ? "no log" : first;
}

}  // namespace moegen::cuda
