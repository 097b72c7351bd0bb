// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "cpu/model_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

void cluster_sync() {
  moegen_cpu_cluster_arrive(1);
  moegen_cpu_cluster_wait(2);
}

std::uint32_t* peer_word(std::uint32_t word, std::uint32_t rank, unsigned site = 3) {
  return static_cast<std::uint32_t*>(moegen_cpu_map_cluster_shared(shared<std::uint32_t>() + word, rank, site));
}

// Every thread leaves a number in each block of its cluster and sums what the others left in its own.
void exchange_sums(void** parameters) {
  const std::uint32_t rank = context().cluster_rank, size = context().cluster_size, threads = context().block_dim.x;
  cluster_sync();
  for (std::uint32_t peer = 0; peer < size; ++peer) *peer_word(rank * threads + me(), peer) = my_block() + me();
  cluster_sync();
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < size; ++i) sum += shared<std::uint32_t>()[i * threads + me()];
  static_cast<std::uint32_t*>(parameters[0])[my_block() * threads + me()] = sum;
}

std::string finding(cpu::HostEntry function, CpuFinding expected = CpuFinding::misuse) {
  const auto reports = HostLaunch(function).grid(4).cluster(2).block(32).shared(256).run();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == expected);
  return text(reports);
}

}  // namespace

TEST_CASE("blocks of a cluster reach each other's shared memory") {
  for (std::uint64_t seed = 0; seed <= 3; ++seed) {
    std::vector<std::uint32_t> out(12 * 64);
    HostLaunch launch(exchange_sums);
    if (seed != 0) launch.chaos(seed);
    CHECK(text(launch.grid(12).cluster(4).block(64).shared(4 * 64 * 4).run(out.data())) == "");
    for (std::uint32_t i = 0; i < out.size(); ++i) {
      const std::uint32_t first = i / 64 / 4 * 4;
      CHECK(out[i] == 4 * first + 6 + 4 * (i % 64));
    }
  }
}

TEST_CASE("threads that have ended are not waited for") {
  std::uint32_t passed = 0;
  const auto kernel = [](void** parameters) {
    if (me() == 1) return;
    cluster_sync();
    if (context().cluster_rank == 1) return;
    cluster_sync();
    moegen_cpu_cluster_arrive(1);
    if (me() == 2) return;  // arrived, and ends without waiting
    moegen_cpu_cluster_wait(2);
    cluster_sync();
    add(parameter<std::uint32_t>(parameters), 1);
  };
  CHECK(text(HostLaunch(kernel).grid(4).cluster(2).block(32).run(&passed)) == "");
  CHECK(passed == 2 * 30);
}

TEST_CASE("what happens between arriving and waiting") {
  std::vector<std::uint32_t> trace;
  const auto kernel = [](void** parameters) {
    auto& order = parameter<std::vector<std::uint32_t>>(parameters);
    moegen_cpu_cluster_arrive(1);
    order.push_back(my_block());
    moegen_cpu_cluster_wait(2);
    order.push_back(10 + my_block());
  };
  CHECK(text(HostLaunch(kernel).grid(2).cluster(2).run(&trace)) == "");
  CHECK(trace == std::vector{0u, 1u, 11u, 10u});
}

TEST_CASE("the cluster's barrier against its rules") {
  CHECK(finding([](void**) {
          moegen_cpu_cluster_arrive(1);
          moegen_cpu_cluster_arrive(2);
        }) ==
        "cluster barrier: a thread arrived twice without waiting in between\n"
        "0/0 arrives at the cluster's barrier @k.cu:20 in f\n");
  CHECK(finding([](void**) { moegen_cpu_cluster_wait(2); }) ==
        "cluster barrier: a thread waits without having arrived\n"
        "0/0 waits for the cluster's barrier @k.cu:20 in f\n");
}

TEST_CASE("addresses that do not map") {
  CHECK(finding([](void**) { peer_word(0, 2); }) ==
        "mapa: block rank 2 of a cluster of 2\n0/0 maps an address into the cluster @k.cu:30 in f\n");
  CHECK(finding([](void**) { peer_word(0, 9); }) ==
        "mapa: block rank 9 of a cluster of 2\n0/0 maps an address into the cluster @k.cu:30 in f\n");
  CHECK(finding([](void**) { moegen_cpu_map_cluster_shared(reinterpret_cast<void*>(0x1234), 1, 3); }) ==
        "mapa: 0x1234 is not in the block's shared memory\n0/0 maps an address into the cluster @k.cu:30 in f\n");
}

TEST_CASE("shared memory of a block that has ended") {
  const auto kernel = [](void**) {
    std::uint32_t* const word = peer_word(4, 1 - context().cluster_rank);
    cluster_sync();
    if (context().cluster_rank == 1) return;
    for (int i = 0; i < 8; ++i) moegen_cpu_block_sync(0, 0, 1);
    add(*word, 1, MOEGEN_CPU_SCOPE_CLUSTER, 4);
  };
  CHECK(finding(kernel, CpuFinding::out_of_bounds) ==
        "shared+0x10 of block 1, which has ended\n0/24 an atomic operation @k.cu:40 in f\n");
  const auto maps_late = [](void**) {
    if (context().cluster_rank == 0) return;
    moegen_cpu_block_sync(0, 0, 1);
    peer_word(1, 0);
  };
  CHECK(finding(maps_late, CpuFinding::out_of_bounds) ==
        "shared+0x4 of block 0, which has ended\n1/31 maps an address into the cluster @k.cu:30 in f\n");
}

TEST_CASE("a block that does not come to the cluster's barrier") {
  const auto kernel = [](void**) {
    moegen_cpu_cluster_arrive(1);
    if (context().cluster_rank == 1) moegen_cpu_block_sync(1, 64, 3);
    moegen_cpu_cluster_wait(2);
    if (context().cluster_rank == 1 || me() < 2) cluster_sync();
    moegen_cpu_block_sync(1, 64, 3);
  };
  const auto reports = HostLaunch(kernel).grid(2).cluster(2).block(64).run();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].finding == CpuFinding::deadlock);
  CHECK(text(reports) ==
        "no thread can run: 128 of 128 wait\n"
        "0/0 waits for cluster barrier (66 of 128 threads arrived); so does thread 1 @k.cu:20 in f\n"
        "0/2 waits for bar.sync 1 (62 of 64 arrived); so do threads 3..63 @k.cu:30 in f\n"
        "1/0 waits for cluster barrier (66 of 128 threads arrived); so do threads 1..63 @k.cu:20 in f\n");
}
