// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "cpu/model_support.hpp"

using namespace moegen;
using test::context;
using test::HostLaunch;

namespace {

// Each thread leaves its number in shared memory and takes its neighbour's, ten times.
void rotate(void** parameters) {
  auto* const out = static_cast<std::uint32_t*>(parameters[0]);
  const MoegenCpuContext& self = context();
  auto* const shared = reinterpret_cast<std::uint32_t*>(self.shared);
  const std::uint32_t threads = self.block_dim.x, me = self.thread_index.x;
  std::uint32_t value = self.block_index.x * 1000 + me;
  for (int round = 0; round < 10; ++round) {
    shared[me] = value;
    moegen_cpu_block_sync(0, 0, 0);
    value = shared[(me + 1) % threads];
    moegen_cpu_block_sync(0, 0, 0);
  }
  out[self.block_index.x * threads + me] = value;
}

std::vector<std::uint32_t> rotated(std::uint32_t blocks, std::uint32_t threads) {
  std::vector<std::uint32_t> expected;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t thread = 0; thread < threads; ++thread)
      expected.push_back(block * 1000 + (thread + 10) % threads);
  }
  return expected;
}

}  // namespace

TEST_CASE("threads of a block meet at its barrier") {
  for (const std::uint32_t threads : {1u, 32u, 48u, 256u, 1024u}) {
    std::vector<std::uint32_t> out(5 * threads, 77);
    const auto reports = HostLaunch(rotate).grid(5).block(threads).shared(4 * threads).run(out.data());
    CHECK(reports.empty());
    CHECK(out == rotated(5, threads));
  }
}

TEST_CASE("and in chaos") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<std::uint32_t> out(5 * 96, 77);
    const auto reports = HostLaunch(rotate).grid(5).block(96).shared(4 * 96).chaos(seed).run(out.data());
    CHECK(reports.empty());
    CHECK(out == rotated(5, 96));
  }
}
