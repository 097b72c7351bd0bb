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

}  // namespace

std::unique_ptr<Checker> make_checker(const LaunchRequest& request) {
  CheckedLaunch launch;
  launch.threads_per_block = static_cast<std::uint32_t>(request.threads_per_block());
  launch.cluster_size = request.cluster;
  launch.buffers = request.buffers;
  launch.constants = static_cast<const HostProgram&>(*request.program).constants;
  return std::make_unique<LaunchChecker>(launch, std::make_unique<SchedulerFindings>());
}

}  // namespace moegen::cpu
