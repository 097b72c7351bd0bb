// SPDX-License-Identifier: Apache-2.0
// What compiled kernel text and the model share about one thread. Plain C layout: both sides compile this file.
#pragma once

/// Bytes of a thread's stack, a power of two; the stack lies at a multiple of it, so that the address of anything on
/// the stack leads to the context at its top.
#define MOEGEN_CPU_STACK_BYTES 65536ul

struct MoegenCpuIndex {
  unsigned int x, y, z;
};

struct MoegenCpuContext {
  struct MoegenCpuIndex thread_index, block_index, block_dim, grid_dim;
  unsigned int lane, warp;
  unsigned int cluster_rank, cluster_size;
  char* shared;                ///< the block's shared memory; static variables first, then the dynamic part
  void* thread;                ///< moegen::cpu::Thread
  unsigned long shared_bytes;  ///< of the block, static and dynamic
  unsigned long reserved[5];
};

/// Where the context of the thread is on whose stack `address` lies.
#define MOEGEN_CPU_CONTEXT_AT(address)                                                          \
  ((struct MoegenCpuContext*)((((unsigned long)(address)) | (MOEGEN_CPU_STACK_BYTES - 1)) + 1 - \
                              sizeof(struct MoegenCpuContext)))
