// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/fault.hpp"

#include <array>
#include <mutex>
#include <string>

#include <fmt/core.h>

#include "cpu/model/address.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/scheduler.hpp"
#include "cpu/model/stacks.hpp"

namespace moegen::cpu {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr std::size_t kSignalStackBytes = 64 * 1024;
/// Addresses below it are a null pointer with an offset.
constexpr std::uintptr_t kNullPage = 4096;

/// Handlers are the process's, so what was there before is, too.
struct Installed {
  std::mutex mutex;
  unsigned users = 0;
  std::array<struct sigaction, kSignals.size()> previous{};
};
Installed& installed() {
  static Installed state;
  return state;
}

const struct sigaction& previous_of(int signal) {
  std::size_t i = 0;
  while (kSignals[i] != signal) ++i;
  return installed().previous[i];
}

/// A fault that is none of ours: what was installed before handles it. Where that is the default, the instruction runs
/// again and ends the process as it would have.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = previous_of(signal);
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    sigaction(signal, &previous, nullptr);
    if (info->si_code <= 0) raise(signal);  // sent by a process: no instruction will raise it again
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  Scheduler* const scheduler = Scheduler::current_or_null();
  const bool of_kernel =
      info->si_code > 0 && scheduler != nullptr && (scheduler->running_or_null() != nullptr || scheduler->performs());
  if (!of_kernel) return pass_on(signal, info, context);
  scheduler->leave_after({signal, info->si_code, reinterpret_cast<std::uintptr_t>(info->si_addr)});
}

std::string describe_address(const Scheduler& scheduler, const Thread& thread, const char* stack,
                             std::uintptr_t address) {
  if (stack != nullptr && in_guard_page(stack, address)) {
    return fmt::format("stack overflow: a thread has {} bytes of stack on the CPU target", usable_stack_bytes());
  }
  if (address < kNullPage) return fmt::format("bad address: null pointer + {}", address);
  return fmt::format("bad address: {}", name_address(scheduler, *thread.block, reinterpret_cast<const void*>(address)));
}

}  // namespace

FaultHandlers::FaultHandlers() {
  Installed& state = installed();
  const std::lock_guard lock(state.mutex);
  if (state.users++ != 0) return;
  struct sigaction action{};
  action.sa_sigaction = handle;
  // SA_NODEFER: the handler is left by a switch of stacks, which would leave the signal blocked.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &state.previous[i]);
}

FaultHandlers::~FaultHandlers() {
  Installed& state = installed();
  const std::lock_guard lock(state.mutex);
  if (--state.users != 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &state.previous[i], nullptr);
}

SignalStack::SignalStack() : memory_(new char[kSignalStackBytes]) {
  stack_t stack{};
  stack.ss_sp = memory_.get();
  stack.ss_size = kSignalStackBytes;
  sigaltstack(&stack, &previous_);
}

SignalStack::~SignalStack() { sigaltstack(&previous_, nullptr); }

std::string describe_fault(const Scheduler& scheduler, const Thread& thread, const char* stack,
                           const HostFault& fault) {
  switch (fault.signal) {
    case SIGFPE: return "integer division by zero, or of the smallest number by -1";
    case SIGILL: return "an instruction that the host does not have, or code that cannot be reached";
    case SIGBUS: return fmt::format("bus error at {:#x}", fault.address);
    default: break;
  }
  if (fault.code == SI_KERNEL) return "bad or misaligned address";  // the processor does not tell which
  return describe_address(scheduler, thread, stack, fault.address);
}

}  // namespace moegen::cpu
