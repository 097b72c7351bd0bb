// SPDX-License-Identifier: Apache-2.0
// Functions of the host as kernels: they run on the stacks of the model's threads and make the calls of kernel text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <moegen/arch.hpp>

#include "cpu/check/checker.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/launcher.hpp"
#include "cpu/program.hpp"

namespace moegen::test {

/// Of the thread that calls.
inline MoegenCpuContext& context() { return *MOEGEN_CPU_CONTEXT_AT(__builtin_frame_address(0)); }
inline std::uint32_t me() { return context().thread_index.x; }
inline std::uint32_t my_block() { return context().block_index.x; }
template <class T>
T* shared() {
  return reinterpret_cast<T*>(context().shared);
}
template <class T>
T& parameter(void** parameters) {
  return *static_cast<T*>(parameters[0]);
}

inline unsigned long add(std::uint32_t& word, std::uint32_t value, unsigned order = MOEGEN_CPU_SCOPE_DEVICE,
                         unsigned site = 0) {
  return moegen_cpu_atomic(&word, 4, MOEGEN_CPU_ATOMIC_ADD, value, 0, order, site);
}
inline unsigned long load(std::uint32_t& word, unsigned order = MOEGEN_CPU_SCOPE_DEVICE, unsigned site = 0) {
  return moegen_cpu_atomic(&word, 4, MOEGEN_CPU_ATOMIC_LOAD, 0, 0, order, site);
}

/// A report as tests compare it: the fact, then a line a party.
inline std::string text(const CpuReport& report) {
  std::string all = report.what + "\n";
  for (const CpuParty& party : report.parties) {
    all += fmt::format("{}/{} {} @{}\n", party.block, party.thread, party.action, party.place);
  }
  return all;
}
inline std::string text(const std::vector<CpuReport>& reports) {
  std::string all;
  for (const CpuReport& report : reports) all += text(report);
  return all;
}

/// A launch of one function with one parameter. Site n of the function is line 10 n of k.cu, in f.
struct HostLaunch {
  explicit HostLaunch(cpu::HostEntry function) {
    program.entries.push_back({.name = "kernel", .function = function});
    std::string table;
    for (int line = 10; line <= 90; line += 10) table += fmt::format("{}\tf\t\n", line);
    program.sites = cpu::Sites("k.cu", table);
    request.entry = "kernel";
    request.arch = find_arch("sm_90a");
    request.num_sms = 16;
  }

  HostLaunch& grid(std::uint32_t blocks) { return request.grid[0] = blocks, *this; }
  HostLaunch& block(std::uint32_t threads) { return request.block[0] = threads, *this; }
  HostLaunch& cluster(std::uint32_t blocks) { return request.cluster = blocks, *this; }
  HostLaunch& shared(std::uint32_t bytes) { return request.dynamic_shared_bytes = bytes, *this; }
  HostLaunch& cooperative() { return request.cooperative = true, *this; }
  HostLaunch& timing(AsyncTiming timing) { return request.options.async_timing = timing, *this; }
  HostLaunch& threads(unsigned count) { return host_threads = count, *this; }
  HostLaunch& chaos(std::uint64_t seed) {
    request.options.schedule = Schedule::chaos;
    request.options.seed = seed;
    return *this;
  }

  /// Runs it; `parameter` is what the function finds in parameters[0].
  std::vector<CpuReport> run(void* parameter = nullptr, const cpu::MakeChecker& make_checker = {}) {
    return outcome(parameter, make_checker).reports;
  }
  cpu::LaunchOutcome outcome(void* parameter = nullptr, const cpu::MakeChecker& make_checker = {}) {
    void* parameters[] = {parameter};
    request.program = &program;
    request.parameters = parameters;
    return cpu::launch(request, make_checker, host_threads);
  }

  cpu::HostProgram program;
  cpu::LaunchRequest request;
  unsigned host_threads = 1;
};

}  // namespace moegen::test
