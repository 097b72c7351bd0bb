// SPDX-License-Identifier: Apache-2.0
// Thread block clusters and distributed shared memory, sm_90 up. On earlier archs a cluster is one block.
#pragma once

#include "types.cuh"

namespace moegen {

/// Number of blocks in this cluster; 1 on archs without clusters.
MOEGEN_DEVICE uint32_t cluster_size() {
#ifdef MOEGEN_TARGET_CPU
  return cpu::cluster_size();
#elif __CUDA_ARCH__ < 900
  return 1;
#else
  uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#endif
}

/// Tells the cluster that this thread's writes to shared memory may be read. Pair with cluster_wait.
MOEGEN_DEVICE void cluster_arrive() {
#ifdef MOEGEN_TARGET_CPU
  cpu::cluster_arrive();
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

/// Waits until every thread of the cluster has arrived; their earlier writes are visible.
MOEGEN_DEVICE void cluster_wait() {
#ifdef MOEGEN_TARGET_CPU
  cpu::cluster_wait();
#elif __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// The word that block `rank` of the cluster has where this block has `word`, as a generic address.
MOEGEN_DEVICE uint32_t* map_cluster_shared(uint32_t* word, uint32_t rank) {
#ifdef MOEGEN_TARGET_CPU
  return static_cast<uint32_t*>(cpu::map_cluster_shared(word, rank));
#elif __CUDA_ARCH__ < 900
  return word;
#else
  uint32_t* peer;
  asm("mapa.u64 %0, %1, %2;" : "=l"(peer) : "l"(word), "r"(rank));
  return peer;
#endif
}

}  // namespace moegen
