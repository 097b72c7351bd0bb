// SPDX-License-Identifier: Apache-2.0
// Host faults inside kernels: a signal of the processor becomes a finding and ends the launch, not the process.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <moegen/cpu_target.hpp>

namespace moegen::cpu {

class Scheduler;

/// What the signal said.
struct HostFault {
  int signal = 0;  ///< 0 = none
  int code = 0;
  std::uintptr_t address = 0;
};

/// While one exists, faults of a kernel or of an operation that it issued end its launch (Scheduler::leave_after); all
/// others go where they went before.
class FaultHandlers {
 public:
  FaultHandlers();
  ~FaultHandlers();
  FaultHandlers(const FaultHandlers&) = delete;
  FaultHandlers& operator=(const FaultHandlers&) = delete;
};

/// A stack for signal handlers of the calling host thread: a fiber whose stack is full has no room for one.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
  stack_t previous_{};
};

struct Thread;
/// "stack overflow: ...", "bad address: null pointer + 16", "bad address: ..., 12 bytes after the end of 'x'". `thread`
/// caused it, on `stack`; null is the host thread's own.
std::string describe_fault(const Scheduler& scheduler, const Thread& thread, const char* stack, const HostFault& fault);

}  // namespace moegen::cpu
