// SPDX-License-Identifier: Apache-2.0
// Functions of the host as kernels: they run on the stacks of the model's threads and make the calls of kernel text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <moegen/arch.hpp>

#include "cpu/check/checker.hpp"
#include "cpu/model/block.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/launcher.hpp"
#include "cpu/program.hpp"

namespace moegen::test {

inline MoegenCpuContext& context() { return *MOEGEN_CPU_CONTEXT_AT(__builtin_frame_address(0)); }

/// A launch of one function with one parameter.
struct HostLaunch {
  explicit HostLaunch(cpu::HostEntry function) {
    program.entries.push_back(
        {.name = "kernel", .function = function, .static_shared_bytes = 0, .dynamic_shared_offset = 0});
    request.entry = "kernel";
    request.label = "kernel";
    request.arch = find_arch("sm_90a");
    request.num_sms = 16;
  }

  HostLaunch& grid(std::uint32_t blocks) { return request.grid[0] = blocks, *this; }
  HostLaunch& block(std::uint32_t threads) { return request.block[0] = threads, *this; }
  HostLaunch& cluster(std::uint32_t blocks) { return request.cluster = blocks, *this; }
  HostLaunch& shared(std::uint32_t bytes) { return request.dynamic_shared_bytes = bytes, *this; }
  HostLaunch& cooperative() { return request.cooperative = true, *this; }
  HostLaunch& chaos(std::uint64_t seed) {
    request.options.schedule = Schedule::chaos;
    request.options.seed = seed;
    return *this;
  }

  /// Runs it; `parameter` is what the function finds in parameters[0].
  std::vector<CpuReport> run(void* parameter = nullptr, const cpu::MakeChecker& make_checker = {}) {
    void* parameters[] = {parameter};
    request.program = &program;
    request.parameters = parameters;
    return cpu::launch(request, make_checker, host_threads).reports;
  }

  cpu::HostProgram program;
  cpu::LaunchRequest request;
  unsigned host_threads = 1;
};

}  // namespace moegen::test
