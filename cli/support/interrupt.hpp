// SPDX-License-Identifier: Apache-2.0
// SIGINT, SIGTERM and SIGHUP: end at once where nothing can be left half-done, else at the next safe point.
#pragma once

#include <exception>

namespace moegen::cli {

/// Thrown at a safe point after a signal asked the process to end.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  /// 128 + the signal's number: 130 for SIGINT.
  int exit_code() const noexcept { return 128 + signal_; }

 private:
  int signal_;
};

/// Installs the handlers; a signal that the parent had set to be ignored (nohup) stays ignored.
void install_interrupt_handlers();

/// While one is alive, a first signal is only noted, because a claim or a temporary file would be left behind; the
/// owner calls check_interrupt() where it can stop. A second signal ends the process all the same.
class DeferInterrupts {
 public:
  DeferInterrupts() noexcept;
  ~DeferInterrupts();
  DeferInterrupts(const DeferInterrupts&) = delete;
  DeferInterrupts& operator=(const DeferInterrupts&) = delete;
};

/// True once a signal has been noted.
bool interrupt_requested() noexcept;

/// Throws Interrupted if a signal has been noted.
void check_interrupt();

}  // namespace moegen::cli
