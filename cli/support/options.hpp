// SPDX-License-Identifier: Apache-2.0
// The options of one command: declared once, then parsed and explained. The only place that knows CLI11.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moegen::cli {

/// Words of the command line after the command itself.
using Arguments = std::vector<std::string>;

/// Each declaration takes a name ("--json", "-o,--out"), where the value goes, and a help text of one line. A value
/// stays as it was where the option is not given. Every problem is an Error with code config of the form
/// "build: fact; what is allowed[; did you mean '--json'?]".
class Options {
 public:
  /// `command` is what the user typed, e.g. "cache gc".
  Options(std::string command, std::string summary);
  ~Options();

  Options& positional(const std::string& name, std::string& value, const std::string& help);
  Options& optional_positional(const std::string& name, std::string& value, const std::string& help);
  /// One or more. `optional_positionals`: none is fine too.
  Options& positionals(const std::string& name, std::vector<std::string>& values, const std::string& help);
  Options& optional_positionals(const std::string& name, std::vector<std::string>& values, const std::string& help);

  Options& flag(const std::string& names, bool& value, const std::string& help);
  Options& text(const std::string& names, std::string& value, const std::string& metavar, const std::string& help);
  /// The path of a file to write. "-" is refused: elsewhere it is a standard stream, here it would become a file.
  Options& output(const std::string& names, std::string& value, const std::string& metavar, const std::string& help);
  /// May be repeated, and one value may be a comma list.
  Options& texts(const std::string& names, std::vector<std::string>& values, const std::string& metavar,
                 const std::string& help);
  /// One of `allowed`; the first is what stands where the option is not given.
  Options& choice(const std::string& names, std::string& value, const std::vector<std::string>& allowed,
                  const std::string& help);
  Options& choices(const std::string& names, std::vector<std::string>& values, const std::vector<std::string>& allowed,
                   const std::string& help);
  Options& integer(const std::string& names, std::optional<std::int64_t>& value, std::int64_t minimum,
                   const std::string& metavar, const std::string& help);
  Options& integers(const std::string& names, std::vector<std::int64_t>& values, std::int64_t minimum,
                    const std::string& metavar, const std::string& help);
  /// Bytes: a whole number with an optional K, M, G or T (powers of 1024).
  Options& size(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help);
  Options& json(bool& value) { return flag("--json", value, "print one JSON object"); }

  /// Lines at the end of --help.
  Options& notes(std::string text);

  /// False if --help was asked for and has been printed. Throws: config.
  bool parse(const Arguments& arguments);

  /// What --help prints.
  std::string help() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moegen::cli
