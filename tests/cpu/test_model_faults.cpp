// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <vector>

#include "cpu/buffers.hpp"
#include "cpu/model/sanitizer.hpp"
#include "cpu/model/stacks.hpp"
#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

void add_one(void** parameters) {
  moegen_cpu_block_sync(0, 0, 1);
  add(parameter<std::uint32_t>(parameters), 1);
}

/// The process and the next launch are fine.
void check_well() {
  std::uint32_t sum = 0;
  CHECK(text(HostLaunch(add_one).grid(8).block(64).threads(2).run(&sum)) == "");
  CHECK(sum == 512);
}

std::string fault(HostLaunch& launch, void* parameter = nullptr) {
  const auto reports = launch.run(parameter);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::fault);
  check_well();
  return text(reports);
}

void write_to(std::uintptr_t address) { *reinterpret_cast<volatile std::uint32_t*>(address) = 1; }

__attribute__((noinline, no_sanitize("address"))) std::uint32_t deep(std::uint32_t depth) {
  volatile std::uint32_t here[64];
  here[depth % 64] = depth;
  if (depth == 0) return 0;
  return deep(depth - 1) + here[depth % 64];
}

}  // namespace

TEST_CASE("a null pointer") {
  HostLaunch launch([](void**) {
    moegen_cpu_block_sync(0, 0, 4);
    if (me() == 7) write_to(24);
    moegen_cpu_block_sync(0, 0, 5);
  });
  CHECK(fault(launch.grid(3).block(64)) ==
        "bad address: null pointer + 24\n0/7 ran into it after its last known place @k.cu:40 in f\n");
}

TEST_CASE("an address near a buffer") {
  // A page that may not be touched follows the buffer.
  const cpu::Stacks stacks = cpu::StackPool::process().take(2);
  char* const forbidden = std::max(stacks.all()[0], stacks.all()[1]);
  const auto at = reinterpret_cast<std::uintptr_t>(forbidden);
  cpu::Buffers buffers;
  REQUIRE_FALSE(buffers.add({at - 100, at - 4, "rows"}).has_value());
  HostLaunch launch([](void** parameters) { write_to(reinterpret_cast<std::uintptr_t>(parameters[0]) + 8); });
  launch.request.buffers = &buffers;
  CHECK(fault(launch, forbidden) == fmt::format("bad address: {:#x}, 12 bytes after the end of 'rows'\n"
                                                "0/0 ran into it after its last known place @an unknown place\n",
                                                at + 8));
}

TEST_CASE("a stack overflow") {
  HostLaunch launch([](void** parameters) {
    if (me() == 33) parameter<std::uint32_t>(parameters) = deep(10000);
  });
  std::uint32_t result = 0;
  CHECK(fault(launch.block(64), &result) ==
        fmt::format("stack overflow: a thread has {} bytes of stack on the CPU target\n"
                    "0/33 ran into it after its last known place @an unknown place\n",
                    cpu::usable_stack_bytes()));
  CHECK(cpu::usable_stack_bytes() > 60000);
}

TEST_CASE("a deep stack that fits") {
  std::uint32_t result = 0;
  const auto kernel = [](void** parameters) { parameter<std::uint32_t>(parameters) = deep(100); };
  CHECK(text(HostLaunch(kernel).run(&result)) == "");
  CHECK(result == 5050);
}

#if defined(__x86_64__)
TEST_CASE("a division by zero") {
  HostLaunch launch([](void** parameters) {
    auto* const numbers = static_cast<volatile int*>(parameters[0]);
    __asm__ volatile("cltd; idivl %1" : : "a"(numbers[0]), "r"(numbers[1]) : "edx", "cc");
  });
  int numbers[2] = {1, 0};
  CHECK(fault(launch, numbers) ==
        "integer division by zero, or of the smallest number by -1\n"
        "0/0 ran into it after its last known place @an unknown place\n");
}

TEST_CASE("an address that the processor does not tell") {
  HostLaunch launch([](void**) { __asm__ volatile("movl $1, (%0)" : : "r"(0x8000'0000'0000'1234u) : "memory"); });
  CHECK(fault(launch) == "bad or misaligned address\n0/0 ran into it after its last known place @an unknown place\n");
}
#endif

TEST_CASE("faults on several threads of the host") {
  HostLaunch launch([](void**) {
    if (my_block() % 3 == 2) write_to(8);
    moegen_cpu_block_sync(0, 0, 1);
  });
  for (int i = 0; i < 20; ++i) {
    const auto reports = launch.grid(64).block(32).threads(4).run();
    REQUIRE(!reports.empty());
    CHECK(reports[0].what == "bad address: null pointer + 8");
  }
  check_well();
}

TEST_CASE("many abandoned launches do not use up anything") {
  HostLaunch launch([](void**) {
    moegen_cpu_block_sync(0, 0, 1);
    if (me() == 1023) write_to(8);
  });
  for (int i = 0; i < 100; ++i) CHECK(launch.block(1024).run().size() == 1);
  check_well();
}

// In a process of its own, which the fault ends.
TEST_CASE("a fault that is not a kernel's goes where it went before") {
  struct Previous {
    static void handle(int) { _exit(42); }
  };
  for (const bool custom : {true, false}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      struct sigaction action{};
      action.sa_handler = custom ? Previous::handle : SIG_DFL;
      sigaction(SIGSEGV, &action, nullptr);
      const cpu::FaultHandlers handlers;
      write_to(8);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (custom) {
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 42);
    } else {
      CHECK(WIFSIGNALED(status));
      CHECK(WTERMSIG(status) == SIGSEGV);
    }
  }
}

TEST_CASE("handlers are there only while a launch runs") {
  struct sigaction before{}, during{}, after{};
  sigaction(SIGFPE, nullptr, &before);
  {
    const cpu::FaultHandlers one;
    const cpu::FaultHandlers two;
    sigaction(SIGFPE, nullptr, &during);
  }
  sigaction(SIGFPE, nullptr, &after);
  CHECK((during.sa_sigaction != before.sa_sigaction));
  CHECK((after.sa_sigaction == before.sa_sigaction));
}

TEST_CASE("a trap") {
  HostLaunch launch([](void**) {
    if (me() == 3) moegen_cpu_trap(6);
  });
  CHECK(fault(launch.block(32)) == "the kernel trapped\n0/3 trap @k.cu:60 in f\n");
}
