// SPDX-License-Identifier: Apache-2.0
#include "cpu/compile/sites.hpp"

#include <charconv>

#include <fmt/format.h>

namespace moegen::cpu {

namespace {

/// What stands before `separator` in `text`, which then begins behind it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return head;
}

std::uint32_t number(std::string_view digits) {
  std::uint32_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::vector<Frame> parse_chain(std::string_view line) {
  std::vector<Frame> chain;
  while (!line.empty()) {
    const std::uint32_t at = number(take(line, '\t'));
    chain.push_back({std::string(take(line, '\t')), at});
  }
  return chain;
}

}  // namespace

Sites::Sites(std::string file_name, std::string_view table) : file_name_(std::move(file_name)) {
  while (!table.empty()) frames_.push_back(parse_chain(take(table, '\n')));
}

const std::vector<Frame>& Sites::frames(std::uint32_t site) const noexcept {
  static const std::vector<Frame> nowhere;
  return site == 0 || site > frames_.size() ? nowhere : frames_[site - 1];
}

std::string Sites::describe(std::uint32_t site) const {
  const std::vector<Frame>& chain = frames(site);
  if (chain.empty()) return "an unknown place";
  std::string text = fmt::format("{}:{} in {}", file_name_, chain.front().line, chain.front().function);
  for (std::size_t i = 1; i < chain.size(); ++i)
    text += fmt::format(", from :{} in {}", chain[i].line, chain[i].function);
  return text;
}

}  // namespace moegen::cpu
