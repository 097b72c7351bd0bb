// SPDX-License-Identifier: Apache-2.0
// Which entries of a checkpoint's exclusion list cover the experts of a layer.
#include <algorithm>
#include <regex>

#include <fmt/format.h>

#include "importer/quantization.hpp"

namespace moegen::importer {
namespace {

using Steps = std::vector<std::string>;

Steps split(std::string_view name) {
  Steps steps(1);
  for (char c : name) {
    if (c == '.')
      steps.emplace_back();
    else
      steps.back() += c;
  }
  return steps;
}

// '*' stands for any characters of one step. On a mismatch the last star takes one more: linear in memory and quick.
bool step_matches(std::string_view pattern, std::string_view step) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t at = 0, read = 0, star = kNone, retry = 0;
  while (read < step.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      retry = read;
    } else if (at < pattern.size() && pattern[at] == step[read]) {
      ++at, ++read;
    } else if (star != kNone) {
      at = star + 1;
      read = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == kNone;
}

bool occurs_in(const Steps& pattern, const Steps& name) {
  const auto at =
      std::search(name.begin(), name.end(), pattern.begin(), pattern.end(),
                  [](const std::string& step, const std::string& part) { return step_matches(part, step); });
  return at != name.end();
}

// What checkpoints call the weights of an expert.
std::vector<std::string> expert_names(int layer) {
  std::vector<std::string> names;
  for (std::string_view stem : {"model", "model.language_model", "language_model.model", "backbone"})
    for (std::string_view block : {"mlp", "block_sparse_moe", "feed_forward", "mixer", "moe"})
      for (std::string_view weight : {"gate_proj", "up_proj", "down_proj"})
        names.push_back(fmt::format("{}.layers.{}.{}.experts.0.{}", stem, layer, block, weight));
  return names;
}

// Short texts and no counted repetition keep the automaton small; libstdc++'s polynomial mode keeps it from
// backtracking.
std::regex compile(const Document& quantization, const std::string& text) {
  constexpr std::size_t kLongest = 256;
  const std::string pattern = text.substr(3);
  if (pattern.size() <= kLongest && pattern.find('{') == std::string::npos) {
    try {
      auto flags = std::regex::ECMAScript;
#ifdef __GLIBCXX__
      flags |= std::regex_constants::__polynomial;
#endif
      return std::regex(pattern, flags);
    } catch (const std::regex_error&) {  // refused below
    }
  }
  quantization.refuse("", fmt::format("has '{}'; 're:' is followed by a regular expression of at most {} characters "
                                      "without '{{'",
                                      preview(text), kLongest));
}

bool covers(const Document& quantization, const std::string& pattern, const std::vector<std::string>& names) {
  if (pattern.starts_with("re:")) {
    const std::regex expression = compile(quantization, pattern);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return std::regex_search(name, expression, std::regex_constants::match_continuous);
    });
  }
  constexpr std::size_t kLongest = 512;
  if (pattern.empty() || pattern.size() > kLongest) return false;
  const Steps steps = split(pattern);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return occurs_in(steps, split(name)); });
}

}  // namespace

std::string excluding_pattern(const Document& quantization, const std::vector<std::string>& patterns, int layer) {
  const std::vector<std::string> names = expert_names(layer);
  for (const std::string& pattern : patterns)
    if (covers(quantization, pattern, names)) return pattern;
  return "";
}

}  // namespace moegen::importer
