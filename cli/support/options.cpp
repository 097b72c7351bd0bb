// SPDX-License-Identifier: Apache-2.0
// CLI11 cuts the command line into options and values; their meaning and every message are decided here.
#include "support/options.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <moegen/error.hpp>

#include "did_you_mean.hpp"
#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

using Values = std::vector<std::string>;

struct Declared {
  CLI::Option* option = nullptr;
  std::string shown;  ///< "-o, --out PACK"
  std::string help;
  bool required = false;
  bool repeatable = false;
  std::function<void(const Values&)> store;
};

std::string last_name(const std::string& names) { return names.substr(names.rfind(',') + 1); }

std::string spaced(const std::string& names) {
  const auto comma = names.find(',');
  if (comma == std::string::npos) return fmt::format("    {}", names);
  return fmt::format("{}, {}", names.substr(0, comma), names.substr(comma + 1));
}

Values split_commas(const Values& values) {
  Values parts;
  for (const std::string& value : values) {
    std::size_t begin = 0;
    for (std::size_t comma; (comma = value.find(',', begin)) != std::string::npos; begin = comma + 1) {
      parts.push_back(value.substr(begin, comma - begin));
    }
    parts.push_back(value.substr(begin));
  }
  return parts;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Power of two that a size suffix stands for, or nothing.
std::optional<int> suffix_shift(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K': return 10;
    case 'm':
    case 'M': return 20;
    case 'g':
    case 'G': return 30;
    case 't':
    case 'T': return 40;
    default: return std::nullopt;
  }
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::optional<int> shift = text.empty() ? std::nullopt : suffix_shift(text.back());
  if (shift) text.remove_suffix(1);
  const auto number = whole_number(text);
  if (!number || *number < 0) return std::nullopt;
  if (*number > (std::numeric_limits<std::int64_t>::max() >> shift.value_or(0))) return std::nullopt;
  return static_cast<std::uint64_t>(*number) << shift.value_or(0);
}

}  // namespace

struct Options::State {
  std::string command, summary, notes, positional_usage;
  CLI::App app;
  std::vector<Declared> declared;

  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(ErrorCode::config, fmt::format("{}: {}", command, fact));
  }

  Declared& add(const std::string& names, const std::string& metavar, const std::string& help) {
    CLI::Option* option = app.add_option(names)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    Declared& added = declared.emplace_back();
    added.option = option;
    added.shown = fmt::format("{}{}{}", spaced(names), metavar.empty() ? "" : " ", metavar);
    added.help = help;
    return added;
  }

  Declared& add_positional(const std::string& name, const std::string& usage, const std::string& help) {
    Declared& added = add(name, "", help);
    added.shown = name;
    positional_usage += fmt::format(" {}", usage);
    return added;
  }

  std::int64_t integer_of(const std::string& name, const std::string& text, std::int64_t minimum) const {
    const auto number = whole_number(text);
    if (!number) fail(fmt::format("{}: '{}' is not a whole number; allowed {} or more", name, text, minimum));
    if (*number < minimum) fail(fmt::format("{}: {} is too small; allowed {} or more", name, *number, minimum));
    return *number;
  }

  void check_word(const std::string& name, const std::string& word, const Values& allowed) const {
    if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return;
    const std::vector<std::string_view> candidates(allowed.begin(), allowed.end());
    fail(fmt::format("{}: '{}' is not known; allowed {}{}", name, word, fmt::join(allowed, ", "),
                     did_you_mean(word, candidates)));
  }

  void cut(const Arguments& arguments);
  void check_remaining();
  void store_all() const;
};

Options::Options(std::string command, std::string summary) : state_(std::make_unique<State>()) {
  state_->command = std::move(command);
  state_->summary = std::move(summary);
  state_->app.allow_extras();
  state_->app.set_help_flag();  // declared below like every other option
  state_->declared.reserve(24);
}

Options::~Options() = default;

Options& Options::positional(const std::string& name, std::string& value, const std::string& help) {
  Declared& added = state_->add_positional(name, name, help);
  added.required = true;
  added.store = [&value](const Values& given) { value = given.front(); };
  return *this;
}

Options& Options::optional_positional(const std::string& name, std::string& value, const std::string& help) {
  Declared& added = state_->add_positional(name, fmt::format("[{}]", name), help);
  added.store = [&value](const Values& given) { value = given.front(); };
  return *this;
}

Options& Options::positionals(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  Declared& added = state_->add_positional(name, fmt::format("{}...", name), help);
  added.option->expected(-1);
  added.required = added.repeatable = true;
  added.store = [&values](const Values& given) { values = given; };
  return *this;
}

Options& Options::optional_positionals(const std::string& name, std::vector<std::string>& values,
                                       const std::string& help) {
  Declared& added = state_->add_positional(name, fmt::format("[{}]...", name), help);
  added.option->expected(-1);
  added.repeatable = true;
  added.store = [&values](const Values& given) { values = given; };
  return *this;
}

Options& Options::flag(const std::string& names, bool& value, const std::string& help) {
  Declared& added = state_->declared.emplace_back();
  added.option = state_->app.add_flag(names)->disable_flag_override();
  added.shown = spaced(names);
  added.help = help;
  added.repeatable = true;
  added.store = [&value](const Values&) { value = true; };
  return *this;
}

Options& Options::text(const std::string& names, std::string& value, const std::string& metavar,
                       const std::string& help) {
  Declared& added = state_->add(names, metavar, help);
  added.store = [this, &value, name = last_name(names)](const Values& given) {
    if (given.front().empty()) state_->fail(name + ": is empty; allowed any text");
    value = given.front();
  };
  return *this;
}

Options& Options::output(const std::string& names, std::string& value, const std::string& metavar,
                         const std::string& help) {
  text(names, value, metavar, help);
  Declared& added = state_->declared.back();
  added.store = [this, &value, name = last_name(names), text = added.store](const Values& given) {
    text(given);
    if (value == "-") state_->fail(name + ": is '-', which would be a file of that name; allowed a path, also ./-");
  };
  return *this;
}

Options& Options::texts(const std::string& names, std::vector<std::string>& values, const std::string& metavar,
                        const std::string& help) {
  Declared& added = state_->add(names, metavar, help);
  added.repeatable = true;
  added.store = [&values](const Values& given) { values = split_commas(given); };
  return *this;
}

Options& Options::choice(const std::string& names, std::string& value, const std::vector<std::string>& allowed,
                         const std::string& help) {
  Declared& added = state_->add(names, fmt::format("{}", fmt::join(allowed, "|")), help);
  added.store = [this, &value, allowed, name = last_name(names)](const Values& given) {
    state_->check_word(name, given.front(), allowed);
    value = given.front();
  };
  return *this;
}

Options& Options::choices(const std::string& names, std::vector<std::string>& values,
                          const std::vector<std::string>& allowed, const std::string& help) {
  Declared& added = state_->add(names, fmt::format("{}", fmt::join(allowed, "|")), help);
  added.repeatable = true;
  added.store = [this, &values, allowed, name = last_name(names)](const Values& given) {
    values = split_commas(given);
    for (const std::string& word : values) state_->check_word(name, word, allowed);
  };
  return *this;
}

Options& Options::integer(const std::string& names, std::optional<std::int64_t>& value, std::int64_t minimum,
                          const std::string& metavar, const std::string& help) {
  Declared& added = state_->add(names, metavar, help);
  added.store = [this, &value, minimum, name = last_name(names)](const Values& given) {
    value = state_->integer_of(name, given.front(), minimum);
  };
  return *this;
}

Options& Options::integers(const std::string& names, std::vector<std::int64_t>& values, std::int64_t minimum,
                           const std::string& metavar, const std::string& help) {
  Declared& added = state_->add(names, metavar, help);
  added.repeatable = true;
  added.store = [this, &values, minimum, name = last_name(names)](const Values& given) {
    for (const std::string& text : split_commas(given)) values.push_back(state_->integer_of(name, text, minimum));
  };
  return *this;
}

Options& Options::size(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help) {
  Declared& added = state_->add(names, "SIZE", help);
  added.store = [this, &value, name = last_name(names)](const Values& given) {
    value = parse_size(given.front());
    if (value) return;
    state_->fail(fmt::format("{}: '{}' is not a size; allowed a whole number of bytes with an optional K, M, G or T",
                             name, given.front()));
  };
  return *this;
}

Options& Options::notes(std::string text) {
  state_->notes = std::move(text);
  return *this;
}

void Options::State::cut(const Arguments& arguments) {
  try {
    app.parse(Values(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    if (text.find("flag override") != std::string::npos)
      fail(fmt::format("--{} takes no value", text.substr(0, text.find(' '))));
    fail(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::ParseError& error) {
    fail(error.what());
  }
}

void Options::State::check_remaining() {
  const Values extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (word.size() < 2 || word.front() != '-') {
    fail(fmt::format("unexpected argument '{}'; allowed{}", word,
                     positional_usage.empty() ? " none" : positional_usage));
  }
  std::vector<std::string> names;
  for (const Declared& each : declared) {
    for (const std::string& name : each.option->get_lnames()) names.push_back(fmt::format("--{}", name));
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  fail(fmt::format("unknown option '{}'; allowed {}{}", word, fmt::join(names, ", "), did_you_mean(word, candidates)));
}

void Options::State::store_all() const {
  for (const Declared& each : declared) {
    const Values& given = each.option->results();
    if (given.empty()) {
      if (each.required) fail(fmt::format("{} is missing; see 'moegen {} --help'", each.shown, command));
      continue;
    }
    if (given.size() > 1 && !each.repeatable) {
      fail(fmt::format("{} is given {} times; allowed once", each.option->get_name(), given.size()));
    }
    each.store(given);
  }
}

bool Options::parse(const Arguments& arguments) {
  bool wants_help = false;
  flag("-h,--help", wants_help, "print this help");
  state_->cut(arguments);
  if (state_->declared.back().option->count() > 0) {
    print(help());
    return false;
  }
  state_->check_remaining();
  state_->store_all();
  return true;
}

std::string Options::help() const {
  std::size_t width = 0;
  for (const Declared& each : state_->declared) width = std::max(width, each.shown.size());
  std::string text =
      fmt::format("usage: moegen {} [options]{}\n\n{}\n\n", state_->command, state_->positional_usage, state_->summary);
  for (const Declared& each : state_->declared) text += fmt::format("  {:<{}}  {}\n", each.shown, width, each.help);
  if (!state_->notes.empty()) text += fmt::format("\n{}\n", state_->notes);
  return text;
}

}  // namespace moegen::cli
