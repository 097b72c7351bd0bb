// SPDX-License-Identifier: Apache-2.0
// Driver: libcuda as a table of functions, loaded by dlopen once per process, and the one check that every call goes
// through.
#pragma once

#include <string>
#include <string_view>

#include "cuda/driver_api.hpp"

namespace moegen::cuda {

/// The driver's functions that moegen calls, under their own names without the prefix and the version suffix.
struct Driver {
  Result (*init)(unsigned int flags);
  Result (*driver_get_version)(int* version);
  Result (*get_error_name)(Result error, const char** text);
  Result (*get_error_string)(Result error, const char** text);

  Result (*device_get_count)(int* count);
  Result (*device_get)(DeviceHandle* device, int ordinal);
  Result (*device_get_name)(char* name, int length, DeviceHandle device);
  Result (*device_get_attribute)(int* value, DeviceAttribute attribute, DeviceHandle device);
  Result (*device_total_mem)(std::size_t* bytes, DeviceHandle device);
  Result (*primary_context_retain)(ContextHandle* context, DeviceHandle device);
  Result (*primary_context_release)(DeviceHandle device);
  Result (*context_get_current)(ContextHandle* context);
  Result (*context_set_current)(ContextHandle context);
  Result (*context_get_device)(DeviceHandle* device);
  Result (*context_synchronize)();

  Result (*mem_alloc)(DevicePointer* pointer, std::size_t bytes);
  Result (*mem_free)(DevicePointer pointer);
  Result (*mem_get_info)(std::size_t* free_bytes, std::size_t* total_bytes);
  Result (*memcpy_host_to_device)(DevicePointer destination, const void* source, std::size_t bytes);
  Result (*memcpy_device_to_host)(void* destination, DevicePointer source, std::size_t bytes);
  Result (*memcpy_host_to_device_async)(DevicePointer destination, const void* source, std::size_t bytes,
                                        StreamHandle stream);
  Result (*memcpy_device_to_host_async)(void* destination, DevicePointer source, std::size_t bytes,
                                        StreamHandle stream);
  Result (*memcpy_device_to_device_async)(DevicePointer destination, DevicePointer source, std::size_t bytes,
                                          StreamHandle stream);
  Result (*memset_8)(DevicePointer destination, unsigned char value, std::size_t count);
  Result (*memset_8_async)(DevicePointer destination, unsigned char value, std::size_t count, StreamHandle stream);
  Result (*memset_32_async)(DevicePointer destination, unsigned int value, std::size_t count, StreamHandle stream);

  Result (*stream_create)(StreamHandle* stream, unsigned int flags);
  Result (*stream_destroy)(StreamHandle stream);
  Result (*stream_synchronize)(StreamHandle stream);
  Result (*stream_wait_event)(StreamHandle stream, EventHandle event, unsigned int flags);
  Result (*stream_begin_capture)(StreamHandle stream, int mode);
  Result (*stream_end_capture)(StreamHandle stream, GraphHandle* graph);
  Result (*event_create)(EventHandle* event, unsigned int flags);
  Result (*event_destroy)(EventHandle event);
  Result (*event_record)(EventHandle event, StreamHandle stream);
  Result (*event_synchronize)(EventHandle event);
  Result (*event_elapsed_time)(float* milliseconds, EventHandle start, EventHandle end);
  Result (*graph_destroy)(GraphHandle graph);
  Result (*graph_instantiate)(GraphExecHandle* executable, GraphHandle graph, unsigned long long flags);
  Result (*graph_exec_destroy)(GraphExecHandle executable);
  Result (*graph_upload)(GraphExecHandle executable, StreamHandle stream);
  Result (*graph_launch)(GraphExecHandle executable, StreamHandle stream);

  Result (*library_load_data)(LibraryHandle* library, const void* code, int* jit_options, void** jit_values,
                              unsigned int num_jit_options, int* options, void** values, unsigned int num_options);
  Result (*library_unload)(LibraryHandle library);
  Result (*library_get_kernel)(KernelHandle* kernel, LibraryHandle library, const char* name);
  Result (*kernel_get_function)(FunctionHandle* function, KernelHandle kernel);
  Result (*kernel_get_attribute)(int* value, FunctionAttribute attribute, KernelHandle kernel, DeviceHandle device);
  Result (*kernel_set_attribute)(FunctionAttribute attribute, int value, KernelHandle kernel, DeviceHandle device);
  Result (*occupancy_max_active_clusters)(int* num_clusters, FunctionHandle function, const LaunchConfig* config);
  Result (*launch_kernel_ex)(const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra);
  Result (*tensor_map_encode_tiled)(void* map, TensorMapType type, unsigned int rank, void* base,
                                    const std::uint64_t* dims, const std::uint64_t* strides, const unsigned int* box,
                                    const unsigned int* element_strides, TensorMapInterleave interleave,
                                    TensorMapSwizzle swizzle, TensorMapPromotion promotion, TensorMapFill fill);

  // Null where the driver is older than CUDA 12.4.
  Result (*kernel_get_param_info)(KernelHandle kernel, std::size_t index, std::size_t* offset, std::size_t* size);
  Result (*func_load)(FunctionHandle function);

  int version;       ///< what cuDriverGetVersion says, e.g. 13000 for CUDA 13.0; 0 before it was asked
  std::string path;  ///< the file that was loaded
};

/// The driver, loaded and initialised once per process. Null if the machine has none that works; `why` then says what
/// was tried and how to get one. Thread-safe.
const Driver* find_driver(std::string* why = nullptr);

/// The same, for callers that cannot go on without. Throws: unsupported, with what `find_driver` says.
const Driver& driver();

/// Loads `file` as a driver without keeping it: what `find_driver` does once with libcuda.so.1. Nothing is returned and
/// `why` is set if it cannot be loaded, lacks a function that moegen needs, or does not initialise.
const Driver* load_driver(const std::string& file, std::string& why);

/// "12.4" for 12040.
std::string version_text(int version);

/// "CUDA_ERROR_INVALID_VALUE (1: invalid argument)".
std::string result_text(const Driver& driver, Result result);

[[noreturn]] void throw_driver_error(Result result, std::string_view call, std::string_view object);

/// Throws: driver, as "OBJECT: CALL failed with CUDA_ERROR_... (N: text)", unless `result` is success.
inline void check(Result result, std::string_view call, std::string_view object) {
  if (result != kSuccess) [[unlikely]]
    throw_driver_error(result, call, object);
}

}  // namespace moegen::cuda
