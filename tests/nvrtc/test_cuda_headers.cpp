// SPDX-License-Identifier: Apache-2.0
// Our declarations of the driver API and of NVRTC against CUDA's headers: numbers, layouts, and the shape of every
// function in the two tables.
#include <doctest/doctest.h>

#include <cstddef>

#include <cuda.h>
#include <nvrtc.h>

#include "cuda/driver.hpp"
#include "cuda/nvrtc_api.hpp"
#include "tensor_map.hpp"

using namespace moegen::cuda;

// Numbers.
static_assert(kSuccess == CUDA_SUCCESS);
static_assert(kErrorInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kErrorNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(kErrorStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kErrorInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(kErrorInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(kErrorInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(kErrorNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(kErrorInvalidPtx == CUDA_ERROR_INVALID_PTX);
static_assert(kErrorUnsupportedPtxVersion == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(kErrorInvalidSource == CUDA_ERROR_INVALID_SOURCE);
static_assert(kErrorNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kErrorInvalidClusterSize == CUDA_ERROR_INVALID_CLUSTER_SIZE);
static_assert(int(DeviceAttribute::max_threads_per_block) == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(int(DeviceAttribute::multiprocessor_count) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(int(DeviceAttribute::l2_cache_size) == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(int(DeviceAttribute::max_threads_per_multiprocessor) ==
              CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
static_assert(int(DeviceAttribute::compute_capability_major) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(int(DeviceAttribute::compute_capability_minor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(int(DeviceAttribute::cooperative_launch) == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
static_assert(int(DeviceAttribute::max_shared_memory_per_block_optin) ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(int(DeviceAttribute::cluster_launch) == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
static_assert(int(FunctionAttribute::shared_size_bytes) == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(int(FunctionAttribute::local_size_bytes) == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(int(FunctionAttribute::num_registers) == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(int(FunctionAttribute::binary_version) == CU_FUNC_ATTRIBUTE_BINARY_VERSION);
static_assert(int(FunctionAttribute::max_dynamic_shared_size_bytes) == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(int(FunctionAttribute::non_portable_cluster_size_allowed) ==
              CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(int(LaunchAttributeId::cooperative) == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(int(LaunchAttributeId::cluster_dimension) == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(int(LaunchAttributeId::programmatic_stream_serialization) ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(int(TensorMapType::uint8) == CU_TENSOR_MAP_DATA_TYPE_UINT8);
static_assert(int(TensorMapType::uint16) == CU_TENSOR_MAP_DATA_TYPE_UINT16);
static_assert(int(TensorMapType::uint32) == CU_TENSOR_MAP_DATA_TYPE_UINT32);
static_assert(int(TensorMapType::float16) == CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
static_assert(int(TensorMapType::float32) == CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
static_assert(int(TensorMapType::bfloat16) == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(int(TensorMapInterleave::none) == CU_TENSOR_MAP_INTERLEAVE_NONE);
static_assert(int(TensorMapSwizzle::none) == CU_TENSOR_MAP_SWIZZLE_NONE);
static_assert(int(TensorMapSwizzle::span_32) == CU_TENSOR_MAP_SWIZZLE_32B);
static_assert(int(TensorMapSwizzle::span_64) == CU_TENSOR_MAP_SWIZZLE_64B);
static_assert(int(TensorMapSwizzle::span_128) == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(int(TensorMapPromotion::none) == CU_TENSOR_MAP_L2_PROMOTION_NONE);
static_assert(int(TensorMapPromotion::l2_128) == CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
static_assert(int(TensorMapFill::zero) == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDefault == CU_EVENT_DEFAULT);
static_assert(kStreamCaptureModeGlobal == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(kStreamCaptureModeThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kNvrtcSuccess == NVRTC_SUCCESS);
static_assert(kNvrtcErrorCompilation == NVRTC_ERROR_COMPILATION);

// Layouts.
static_assert(sizeof(moegen::TensorMap) == sizeof(CUtensorMap));
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(sizeof(LaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(alignof(LaunchAttribute) == alignof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(LaunchAttributeValue, cluster_dim) == offsetof(CUlaunchAttributeValue, clusterDim));
static_assert(sizeof(LaunchAttributeValue::cluster_dim) == sizeof(CUlaunchAttributeValue::clusterDim));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(alignof(LaunchConfig) == alignof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, grid_dim_x) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(LaunchConfig, block_dim_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_mem_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, num_attributes) == offsetof(CUlaunchConfig, numAttrs));

// Functions: as many parameters as CUDA's, each of the same size and kind of register, and the same result.
namespace {

template <class T>
struct Passed {
  static constexpr bool kPointer = std::is_pointer_v<T>;
  static constexpr std::size_t kBytes = [] {
    if constexpr (std::is_void_v<T>) {
      return std::size_t{0};
    } else {
      return sizeof(T);
    }
  }();
};

template <class A, class B>
constexpr bool kSamePassing = Passed<A>::kPointer == Passed<B>::kPointer && Passed<A>::kBytes == Passed<B>::kBytes;

template <class Ours, class Theirs>
constexpr bool kSameShape = false;

template <class R1, class... A1, class R2, class... A2>
  requires(sizeof...(A1) == sizeof...(A2))
constexpr bool kSameShape<R1 (*)(A1...), R2 (*)(A2...)> = kSamePassing<R1, R2> && (kSamePassing<A1, A2> && ...);

}  // namespace

#define SAME_SHAPE(member, function) static_assert(kSameShape<decltype(Driver::member), decltype(&function)>)
SAME_SHAPE(init, cuInit);
SAME_SHAPE(driver_get_version, cuDriverGetVersion);
SAME_SHAPE(get_error_name, cuGetErrorName);
SAME_SHAPE(get_error_string, cuGetErrorString);
SAME_SHAPE(device_get_count, cuDeviceGetCount);
SAME_SHAPE(device_get, cuDeviceGet);
SAME_SHAPE(device_get_name, cuDeviceGetName);
SAME_SHAPE(device_get_attribute, cuDeviceGetAttribute);
SAME_SHAPE(device_total_mem, cuDeviceTotalMem);
SAME_SHAPE(primary_context_retain, cuDevicePrimaryCtxRetain);
SAME_SHAPE(primary_context_release, cuDevicePrimaryCtxRelease);
SAME_SHAPE(context_get_current, cuCtxGetCurrent);
SAME_SHAPE(context_set_current, cuCtxSetCurrent);
SAME_SHAPE(context_get_device, cuCtxGetDevice);
SAME_SHAPE(context_synchronize, cuCtxSynchronize);
SAME_SHAPE(mem_alloc, cuMemAlloc);
SAME_SHAPE(mem_free, cuMemFree);
SAME_SHAPE(mem_get_info, cuMemGetInfo);
SAME_SHAPE(memcpy_host_to_device, cuMemcpyHtoD);
SAME_SHAPE(memcpy_device_to_host, cuMemcpyDtoH);
SAME_SHAPE(memcpy_host_to_device_async, cuMemcpyHtoDAsync);
SAME_SHAPE(memcpy_device_to_host_async, cuMemcpyDtoHAsync);
SAME_SHAPE(memcpy_device_to_device_async, cuMemcpyDtoDAsync);
SAME_SHAPE(memset_8, cuMemsetD8);
SAME_SHAPE(memset_8_async, cuMemsetD8Async);
SAME_SHAPE(memset_32_async, cuMemsetD32Async);
SAME_SHAPE(stream_create, cuStreamCreate);
SAME_SHAPE(stream_destroy, cuStreamDestroy);
SAME_SHAPE(stream_synchronize, cuStreamSynchronize);
SAME_SHAPE(stream_wait_event, cuStreamWaitEvent);
SAME_SHAPE(stream_begin_capture, cuStreamBeginCapture);
SAME_SHAPE(stream_end_capture, cuStreamEndCapture);
SAME_SHAPE(event_create, cuEventCreate);
SAME_SHAPE(event_destroy, cuEventDestroy);
SAME_SHAPE(event_record, cuEventRecord);
SAME_SHAPE(event_synchronize, cuEventSynchronize);
SAME_SHAPE(event_elapsed_time, cuEventElapsedTime);
SAME_SHAPE(graph_destroy, cuGraphDestroy);
SAME_SHAPE(graph_instantiate, cuGraphInstantiateWithFlags);
SAME_SHAPE(graph_exec_destroy, cuGraphExecDestroy);
SAME_SHAPE(graph_upload, cuGraphUpload);
SAME_SHAPE(graph_launch, cuGraphLaunch);
SAME_SHAPE(library_load_data, cuLibraryLoadData);
SAME_SHAPE(library_unload, cuLibraryUnload);
SAME_SHAPE(library_get_kernel, cuLibraryGetKernel);
SAME_SHAPE(kernel_get_function, cuKernelGetFunction);
SAME_SHAPE(kernel_get_attribute, cuKernelGetAttribute);
SAME_SHAPE(kernel_set_attribute, cuKernelSetAttribute);
SAME_SHAPE(occupancy_max_active_clusters, cuOccupancyMaxActiveClusters);
SAME_SHAPE(launch_kernel_ex, cuLaunchKernelEx);
SAME_SHAPE(tensor_map_encode_tiled, cuTensorMapEncodeTiled);
SAME_SHAPE(kernel_get_param_info, cuKernelGetParamInfo);
SAME_SHAPE(func_load, cuFuncLoad);
#undef SAME_SHAPE

#define SAME_SHAPE(member, function) static_assert(kSameShape<decltype(NvrtcApi::member), decltype(&function)>)
SAME_SHAPE(get_error_string, nvrtcGetErrorString);
SAME_SHAPE(version, nvrtcVersion);
SAME_SHAPE(get_num_supported_archs, nvrtcGetNumSupportedArchs);
SAME_SHAPE(get_supported_archs, nvrtcGetSupportedArchs);
SAME_SHAPE(create_program, nvrtcCreateProgram);
SAME_SHAPE(destroy_program, nvrtcDestroyProgram);
SAME_SHAPE(compile_program, nvrtcCompileProgram);
SAME_SHAPE(get_program_log_size, nvrtcGetProgramLogSize);
SAME_SHAPE(get_program_log, nvrtcGetProgramLog);
SAME_SHAPE(get_cubin_size, nvrtcGetCUBINSize);
SAME_SHAPE(get_cubin, nvrtcGetCUBIN);
#undef SAME_SHAPE

// The comparison itself must be able to fail.
static_assert(!kSameShape<decltype(Driver::init), decltype(&cuDriverGetVersion)>);
static_assert(!kSameShape<decltype(Driver::mem_alloc), decltype(&cuMemFree)>);

namespace {

/// Writes through our launch attribute and reads through CUDA's: the value that a cluster launch depends on.
CUlaunchAttribute as_cuda(const LaunchAttribute& ours) {
  CUlaunchAttribute theirs;
  static_assert(sizeof theirs == sizeof ours);
  __builtin_memcpy(&theirs, &ours, sizeof ours);
  return theirs;
}

}  // namespace

TEST_CASE("a launch attribute written through our layout reads the same through CUDA's") {
  LaunchAttribute ours{};
  ours.id = LaunchAttributeId::cluster_dimension;
  ours.value.cluster_dim = {7, 5, 3};
  const CUlaunchAttribute theirs = as_cuda(ours);
  CHECK(theirs.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  CHECK(theirs.value.clusterDim.x == 7);
  CHECK(theirs.value.clusterDim.y == 5);
  CHECK(theirs.value.clusterDim.z == 3);
}

TEST_CASE("the flags of a launch sit where CUDA reads them") {
  LaunchAttribute ours{};
  ours.id = LaunchAttributeId::programmatic_stream_serialization;
  ours.value.programmatic_stream_serialization_allowed = 1;
  CHECK(as_cuda(ours).value.programmaticStreamSerializationAllowed == 1);
  ours.id = LaunchAttributeId::cooperative;
  ours.value.cooperative = 1;
  CHECK(as_cuda(ours).value.cooperative == 1);
}
