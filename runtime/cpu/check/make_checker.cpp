// SPDX-License-Identifier: Apache-2.0
// The checks of a launch, tied to the scheduler that runs it.
#include <memory>
#include <string>
#include <utility>

#include "cpu/check/launch_checker.hpp"
#include "cpu/program.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {
namespace {

class SchedulerFindings final : public Findings {
 public:
  void report(CpuReport report) override { Scheduler::current().report(std::move(report)); }
  [[noreturn]] void fail(CpuReport report) override { Scheduler::current().fail(std::move(report)); }
  std::string place(Site site) const override { return Scheduler::current().place(site); }
};

std::uint32_t product(const std::uint32_t (&sizes)[3]) noexcept { return sizes[0] * sizes[1] * sizes[2]; }

}  // namespace

std::unique_ptr<Checker> make_checker(const LaunchRequest& request) {
  CheckedLaunch launch;
  launch.threads_per_block = product(request.block);
  launch.cluster_size = request.cluster;
  launch.buffers = request.buffers;
  launch.constants = static_cast<const HostProgram&>(*request.program).constants;
  return std::make_unique<LaunchChecker>(launch, std::make_unique<SchedulerFindings>());
}

}  // namespace moegen::cpu
