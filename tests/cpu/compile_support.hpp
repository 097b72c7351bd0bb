// SPDX-License-Identifier: Apache-2.0
// Compiles texts and runs them as one thread of one block, without the model: accesses and barriers are only recorded.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <moegen/arch.hpp>

#include "cpu/calls/thread_context.h"
#include "cpu/compile/compiler.hpp"
#include "cpu/compile/symbols.hpp"

namespace moegen::cpu::test {

inline const Compiler& compiler() {
  static const Compiler instance;
  return instance;
}

inline CompiledObject compile(std::string_view text, std::vector<std::string> entries, bool check = false,
                              std::string_view arch = "sm_90a") {
  return compiler().compile({.source = text,
                             .file_name = "kernel.cu",
                             .arch = find_arch(arch),
                             .entries = std::move(entries),
                             .check = check});
}

/// A call of moegen_cpu_access.
struct RecordedAccess {
  std::uintptr_t address = 0;
  std::uint32_t bytes = 0, alignment = 0, kind = 0, site = 0;
};

/// What the last run called.
struct Recorded {
  std::vector<RecordedAccess> accesses;
  std::vector<std::uint32_t> barrier_sites;
  static Recorded& instance() {
    static Recorded recorded;
    return recorded;
  }
};

inline void record_access(const void* address, unsigned bytes, unsigned alignment, unsigned kind, unsigned site) {
  Recorded::instance().accesses.push_back({reinterpret_cast<std::uintptr_t>(address), bytes, alignment, kind, site});
}

inline void record_barrier(unsigned, unsigned, unsigned site) { Recorded::instance().barrier_sites.push_back(site); }

inline const Loader& loader() {
  static const Loader instance = [] {
    std::vector<Symbol> symbols = support_symbols();
    symbols.push_back({"moegen_cpu_access", reinterpret_cast<void*>(&record_access)});
    symbols.push_back({"moegen_cpu_block_sync", reinterpret_cast<void*>(&record_barrier)});
    return Loader(symbols);
  }();
  return instance;
}

/// A text that must compile and load.
inline std::shared_ptr<const HostProgram> build(std::string_view text, const std::vector<std::string>& entries,
                                                bool check = false) {
  const CompiledObject compiled = compile(text, entries, check);
  REQUIRE_MESSAGE(!compiled.object.empty(), compiled.log);
  CHECK(compiled.log == "");
  std::string why;
  auto program = loader().load(compiled.object, entries, why);
  REQUIRE_MESSAGE(program, why);
  return program;
}

/// The stack of one thread, with its context at the top, and the block's shared memory.
class OneThread {
 public:
  OneThread() : stack_(static_cast<char*>(std::aligned_alloc(MOEGEN_CPU_STACK_BYTES, MOEGEN_CPU_STACK_BYTES))) {
    std::memset(stack_, 0, MOEGEN_CPU_STACK_BYTES);
    context().block_dim = context().grid_dim = {1, 1, 1};
    context().shared = shared_;
  }
  ~OneThread() { std::free(stack_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  MoegenCpuContext& context() { return *MOEGEN_CPU_CONTEXT_AT(stack_); }
  char* shared() { return shared_; }

  void run(HostEntry entry, void** parameters) {
    entry_ = entry;
    parameters_ = parameters;
    Recorded::instance() = {};
    ucontext_t body{};
    getcontext(&body);
    body.uc_stack.ss_sp = stack_;
    body.uc_stack.ss_size = MOEGEN_CPU_STACK_BYTES - sizeof(MoegenCpuContext);
    body.uc_link = &caller_;
    current() = this;
    makecontext(&body, &OneThread::start, 0);
    swapcontext(&caller_, &body);
  }

 private:
  static OneThread*& current() {
    static OneThread* thread = nullptr;
    return thread;
  }
  static void start() { current()->entry_(current()->parameters_); }

  char* stack_;
  alignas(1024) char shared_[4096] = {};
  ucontext_t caller_{};
  HostEntry entry_ = nullptr;
  void** parameters_ = nullptr;
};

}  // namespace moegen::cpu::test
