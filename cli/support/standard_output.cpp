// SPDX-License-Identifier: Apache-2.0
#include "support/standard_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>

#include <fmt/core.h>

#include <moegen/error.hpp>

namespace moegen::cli {
namespace {

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) != -1; }

/// Opened the wrong way round, so that a read or a write of a stream that the caller had closed still fails.
void occupy(int descriptor) {
  const int opened = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  if (opened != -1 && opened != descriptor) ::close(opened);
}

/// 0, or the error that ended the writing.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

void prepare_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!is_open(descriptor)) occupy(descriptor);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

void print(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) throw ReaderGone();
  if (error == 0) return;
  throw Error(ErrorCode::cache,
              fmt::format("standard output: cannot be written: {}", std::generic_category().message(error)));
}

void note(std::string_view text) { write_all(STDERR_FILENO, fmt::format("moegen: {}\n", text)); }

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && !(term != nullptr && std::string_view(term) == "dumb");
}

}  // namespace moegen::cli
