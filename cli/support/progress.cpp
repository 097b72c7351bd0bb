// SPDX-License-Identifier: Apache-2.0
#include "support/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/core.h>

#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";  // ECMA-48: carriage return, erase to the end of the line

std::size_t terminal_width() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_stderr(std::string_view text) { [[maybe_unused]] auto n = ::write(STDERR_FILENO, text.data(), text.size()); }

}  // namespace

Progress::Progress() : terminal_(stderr_is_terminal()) {}
Progress::~Progress() { clear(); }

void Progress::show(std::size_t index, std::size_t count, std::string_view text) {
  if (!terminal_) return;
  const std::string line = fmt::format("[{}/{}] {}", index, count, text);
  const std::lock_guard lock(mutex_);
  // A line that wraps could not be erased again.
  write_stderr(fmt::format("{}{}", kEraseLine, line.substr(0, std::max<std::size_t>(terminal_width(), 2) - 1)));
  shown_ = true;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (shown_) write_stderr(kEraseLine);
  shown_ = false;
}

}  // namespace moegen::cli
