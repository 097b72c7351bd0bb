// SPDX-License-Identifier: Apache-2.0
#include "support/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace moegen::cli {
namespace {

// A signal handler can reach nothing but globals; these two lock-free words are the only ones of the command line.
std::atomic<int> g_signal{0};
std::atomic<int> g_deferred{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  const bool second = g_signal.exchange(signal) != 0;
  if (second || g_deferred.load() == 0) ::_exit(128 + signal);
}

void install(int signal) {
  struct sigaction current = {};
  if (::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void install_interrupt_handlers() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) install(signal);
}

DeferInterrupts::DeferInterrupts() noexcept { g_deferred.fetch_add(1); }
DeferInterrupts::~DeferInterrupts() { g_deferred.fetch_sub(1); }

bool interrupt_requested() noexcept { return g_signal.load() != 0; }

void check_interrupt() {
  if (interrupt_requested()) throw Interrupted(g_signal.load());
}

}  // namespace moegen::cli
