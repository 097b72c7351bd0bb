// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's binary interface that moegen calls, declared here so that no CUDA header is needed to
// build. Handles are cuda.h's own tags. tests/nvrtc/test_driver_api.cpp checks every number and layout against cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUkern_st;
struct CUlib_st;
struct CUstream_st;
// NOLINTEND(readability-identifier-naming)

namespace moegen::cuda {

using Result = int;                        ///< CUresult
using DeviceHandle = int;                  ///< CUdevice; the ordinal
using DevicePointer = unsigned long long;  ///< CUdeviceptr
using ContextHandle = CUctx_st*;           ///< CUcontext
using EventHandle = CUevent_st*;           ///< CUevent
using FunctionHandle = CUfunc_st*;         ///< CUfunction: belongs to one context
using GraphHandle = CUgraph_st*;           ///< CUgraph
using GraphExecHandle = CUgraphExec_st*;   ///< CUgraphExec
using KernelHandle = CUkern_st*;           ///< CUkernel: belongs to no context
using LibraryHandle = CUlib_st*;           ///< CUlibrary
using StreamHandle = CUstream_st*;         ///< CUstream

inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorInvalidValue = 1;
inline constexpr Result kErrorNotInitialized = 3;
inline constexpr Result kErrorStubLibrary = 34;
inline constexpr Result kErrorNoDevice = 100;
inline constexpr Result kErrorInvalidDevice = 101;
inline constexpr Result kErrorInvalidImage = 200;
inline constexpr Result kErrorInvalidContext = 201;
inline constexpr Result kErrorNoBinaryForGpu = 209;
inline constexpr Result kErrorInvalidPtx = 218;
inline constexpr Result kErrorUnsupportedPtxVersion = 222;
inline constexpr Result kErrorInvalidSource = 300;
inline constexpr Result kErrorNotFound = 500;
inline constexpr Result kErrorInvalidClusterSize = 912;

/// CUdevice_attribute
enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  multiprocessor_count = 16,
  l2_cache_size = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  cooperative_launch = 95,
  max_shared_memory_per_block_optin = 97,
  cluster_launch = 120,
};

/// CUfunction_attribute
enum class FunctionAttribute : int {
  shared_size_bytes = 1,
  local_size_bytes = 3,
  num_registers = 4,
  binary_version = 6,
  max_dynamic_shared_size_bytes = 8,
  non_portable_cluster_size_allowed = 14,
};

/// CUlaunchAttributeID
enum class LaunchAttributeId : int {
  cooperative = 2,
  cluster_dimension = 4,
  programmatic_stream_serialization = 6,
};

/// CUlaunchAttributeValue
union LaunchAttributeValue {
  char pad[64];
  int cooperative;
  struct {
    unsigned int x, y, z;
  } cluster_dim;
  int programmatic_stream_serialization_allowed;
};

/// CUlaunchAttribute
struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[8 - sizeof(LaunchAttributeId)];
  alignas(8) LaunchAttributeValue value;
};

/// CUlaunchConfig
struct LaunchConfig {
  unsigned int grid_dim_x, grid_dim_y, grid_dim_z;
  unsigned int block_dim_x, block_dim_y, block_dim_z;
  unsigned int shared_mem_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned int num_attributes;
};

/// CUtensorMapDataType
enum class TensorMapType : int { uint8 = 0, uint16 = 1, uint32 = 2, float16 = 6, float32 = 7, bfloat16 = 9 };

/// CUtensorMapInterleave
enum class TensorMapInterleave : int { none = 0 };

/// CUtensorMapSwizzle
enum class TensorMapSwizzle : int { none = 0, span_32 = 1, span_64 = 2, span_128 = 3 };

/// CUtensorMapL2promotion
enum class TensorMapPromotion : int { none = 0, l2_128 = 2, l2_256 = 3 };

/// CUtensorMapFloatOOBfill
enum class TensorMapFill : int { zero = 0 };

inline constexpr unsigned int kStreamNonBlocking = 1;  ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned int kEventDefault = 0;       ///< CU_EVENT_DEFAULT
inline constexpr unsigned int kMemHostAllocPortable = 1;
inline constexpr int kStreamCaptureModeGlobal = 0;       ///< CU_STREAM_CAPTURE_MODE_GLOBAL
inline constexpr int kStreamCaptureModeThreadLocal = 1;  ///< CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

}  // namespace moegen::cuda
