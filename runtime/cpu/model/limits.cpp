// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/limits.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/core.h>

#include "cpu/check/actors.hpp"
#include "cpu/model/stacks.hpp"

namespace moegen::cpu {
namespace {

// CUDA C++ Programming Guide, "Compute Capabilities" (13.0): the same on all archs from 8.0 on.
constexpr std::uint64_t kMaxBlock[3] = {1024, 1024, 64};
constexpr std::uint64_t kMaxGrid[3] = {2147483647, 65535, 65535};
constexpr std::uint64_t kMaxThreads = 1024;
constexpr std::uint32_t kMaxStaticShared = 48 * 1024;

std::string text(const std::uint32_t (&size)[3]) { return fmt::format("{} x {} x {}", size[0], size[1], size[2]); }

std::string check_size(const char* what, const std::uint32_t (&size)[3], const std::uint64_t (&most)[3]) {
  for (int i = 0; i < 3; ++i) {
    if (size[i] == 0 || size[i] > most[i]) {
      return fmt::format("{} of {}; each size is 1 to {}, {}, {}", what, text(size), most[0], most[1], most[2]);
    }
  }
  return {};
}

/// The smaller of two limits of which 0 is none.
std::uint64_t tighter(std::uint64_t a, std::uint64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

std::string check_threads(const LaunchRequest& request, const HostProgram::Entry& entry) {
  const std::uint64_t threads = request.threads_per_block();
  if (threads > kMaxThreads) return fmt::format("{} threads a block; at most {}", threads, kMaxThreads);
  const std::uint64_t most = tighter(static_cast<std::uint64_t>(std::max(request.max_threads, 0)), entry.max_threads);
  if (most == 0 || threads <= most) return {};
  return fmt::format("{} threads a block; its launch bounds say at most {}", threads, most);
}

std::string check_shared(const LaunchRequest& request, const HostProgram::Entry& entry) {
  if (entry.static_shared_bytes > kMaxStaticShared) {
    return fmt::format("{} bytes of static shared memory; at most {}", entry.static_shared_bytes, kMaxStaticShared);
  }
  const std::uint64_t fixed = std::max(entry.static_shared_bytes, entry.dynamic_shared_offset);
  const std::uint64_t all =
      request.dynamic_shared_bytes == 0 ? entry.static_shared_bytes : fixed + request.dynamic_shared_bytes;
  const auto most = static_cast<std::uint64_t>(request.arch.max_shared_bytes);
  if (all <= most) return {};
  return fmt::format("{} bytes of shared memory, {} of them dynamic; {} has {} a block", all,
                     request.dynamic_shared_bytes, request.arch.name, most);
}

std::string check_cluster(const LaunchRequest& request) {
  if (request.cluster == 0) return "a cluster of 0 blocks; 1 stands for none";
  if (request.cluster == 1) return {};
  if (!request.arch.clusters)
    return fmt::format("a cluster of {} blocks; {} has no clusters", request.cluster, request.arch.name);
  if (request.cluster > static_cast<std::uint32_t>(request.arch.max_cluster)) {
    return fmt::format("a cluster of {} blocks; {} has at most {}", request.cluster, request.arch.name,
                       request.arch.max_cluster);
  }
  if (request.grid[0] % request.cluster == 0) return {};
  return fmt::format("a grid of {} blocks along x; its clusters of {} do not divide that", request.grid[0],
                     request.cluster);
}

/// The checks number the threads of a launch.
std::string check_checks(const LaunchRequest& request) {
  if (!request.options.check) return {};
  const std::uint64_t blocks = request.num_blocks(), threads = request.threads_per_block();
  if (blocks <= kFirstOperation / threads) return {};
  return fmt::format("{} blocks of {} threads; the checks can tell {} threads of a launch apart", blocks, threads,
                     kFirstOperation);
}

std::string check_resident(const LaunchRequest& request) {
  const std::uint64_t together = request.cooperative ? request.num_blocks() : request.cluster;
  if (request.cooperative && together > static_cast<std::uint64_t>(std::max(request.num_sms, 0))) {
    return fmt::format("a cooperative grid of {} blocks; {} can be resident together", together, request.num_sms);
  }
  const std::uint64_t threads = together * request.threads_per_block();
  if (threads <= kMaxStacks) return {};
  return fmt::format("{} threads that run together; the CPU target holds at most {}", threads, kMaxStacks);
}

}  // namespace

std::string refusal(const LaunchRequest& request, const HostProgram::Entry& entry) {
  std::string why = check_size("a grid", request.grid, kMaxGrid);
  if (why.empty()) why = check_size("a block", request.block, kMaxBlock);
  if (why.empty()) why = check_threads(request, entry);
  if (why.empty()) why = check_shared(request, entry);
  if (why.empty()) why = check_cluster(request);
  if (why.empty()) why = check_resident(request);
  if (why.empty()) why = check_checks(request);
  return why;
}

}  // namespace moegen::cpu
