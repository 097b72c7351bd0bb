// SPDX-License-Identifier: Apache-2.0
#include "cpu/launcher/clang_toolchain.hpp"

#include <utility>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "cpu/launcher/library.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {
namespace {

/// The first error in Clang's diagnostics, else their first line.
std::string_view first_error(std::string_view log) {
  const std::size_t error = log.find("error: ");
  const std::size_t begin = error == std::string_view::npos ? 0 : log.rfind('\n', error) + 1;
  return log.substr(begin, log.find('\n', begin) - begin);
}

}  // namespace

// An object is for the processor that it was made for: a pack or a shared cache may come from another machine.
std::vector<std::string> ClangToolchain::flags(const Arch&) const {
  const Target* target = load_target();
  return {check_ ? "--check" : "--no-check", target ? target->version() : "no host"};
}

bool ClangToolchain::available(std::string* why) const { return load_target(why) != nullptr; }

std::string ClangToolchain::version() const { return load_target()->version(); }

bool ClangToolchain::is_current(std::string_view version) const {
  const Target* target = load_target();
  return target && target->version() == version;
}

Compiled ClangToolchain::compile(std::string_view source, const std::string& file_name, const Arch& arch,
                                 const std::vector<std::string>& entries) const {
  CompiledObject made = load_target()->compile(
      {.source = source, .file_name = file_name, .arch = arch, .entries = entries, .check = check_});
  if (made.object.empty()) {
    const std::string message = fmt::format("{} for the CPU target: {}", file_name, first_error(made.log));
    throw CompileError(message, std::string(source), std::move(made.log));
  }
  return {std::move(made.object), std::move(made.resources), std::move(made.log)};
}

}  // namespace moegen::cpu
