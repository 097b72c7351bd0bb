// SPDX-License-Identifier: Apache-2.0
#include "fakes/fake_cuda.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "cuda/driver_api.hpp"

using moegen::cuda::DeviceAttribute;
using moegen::cuda::LaunchAttribute;
using moegen::cuda::LaunchAttributeId;
using moegen::cuda::LaunchConfig;

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
#define FAKE_API extern "C" __attribute__((visibility("default")))

struct CUlib_st {
  std::string image;
  std::vector<std::unique_ptr<CUkern_st>> kernels;
};

struct CUkern_st {
  std::string name;
};

struct CUstream_st {
  bool capturing = false;
  int captured = 0;
};

struct CUevent_st {};

struct CUgraph_st {
  int launches = 0;
};

struct CUgraphExec_st {
  int launches = 0;
};

struct CUctx_st {
  int ordinal = 0;
};

namespace moegen::fake {
namespace {

struct State {
  Cuda cuda;
  std::mutex mutex;  ///< over the lists that grow
  std::atomic<int> launches{0}, loads{0}, unloads{0}, functions_loaded{0}, live{0};
  std::array<CUctx_st, 64> contexts{};
};

State& state() {
  static State instance;
  return instance;
}

thread_local int current_device = 0;
thread_local Launch last;

int planned_failure(const char* call) {
  const auto& fail = state().cuda.fail;
  if (fail.empty()) return 0;
  const auto found = fail.find(call);
  return found == fail.end() ? 0 : found->second;
}

bool exists(int ordinal) { return ordinal >= 0 && ordinal < static_cast<int>(state().cuda.devices.size()); }

template <class T>
int make(T** handle) {
  *handle = new T{};
  ++state().live;
  return 0;
}

template <class T>
int destroy(T* handle) {
  delete handle;
  --state().live;
  return 0;
}

int attribute_of(const Device& device, DeviceAttribute attribute) {
  switch (attribute) {
    case DeviceAttribute::compute_capability_major: return device.major;
    case DeviceAttribute::compute_capability_minor: return device.minor;
    case DeviceAttribute::multiprocessor_count: return device.num_sms;
    case DeviceAttribute::max_shared_memory_per_block_optin: return 232448;
    case DeviceAttribute::l2_cache_size: return 60 << 20;
    case DeviceAttribute::cluster_launch: return device.clusters ? 1 : 0;
    default: return 1;
  }
}

void record(const LaunchConfig& config, void* kernel, void** parameters) {
  last = Launch{};
  last.grid = config.grid_dim_x;
  last.block = config.block_dim_x;
  last.shared = config.shared_mem_bytes;
  last.stream = config.stream;
  last.kernel = kernel;
  last.num_attributes = config.num_attributes;
  for (unsigned int i = 0; i < config.num_attributes; ++i) {
    const LaunchAttribute& attribute = config.attributes[i];
    if (attribute.id == LaunchAttributeId::cluster_dimension)
      last.cluster = static_cast<int>(attribute.value.cluster_dim.x);
    if (attribute.id == LaunchAttributeId::cooperative) last.cooperative = attribute.value.cooperative;
    if (attribute.id == LaunchAttributeId::programmatic_stream_serialization)
      last.dependent = attribute.value.programmatic_stream_serialization_allowed;
  }
  const std::size_t bytes = std::min(state().cuda.args_bytes, last.args.size());
  std::memcpy(last.args.data(), parameters[0], bytes);
}

/// What fake_nvrtc wrote: the names of its sections follow the first four bytes, each with its end.
std::string image_of(const char* code) {
  constexpr std::string_view kSection = ".text.";
  std::string image = code;
  for (const char* at = code + image.size() + 1; image.size() > 4 && std::string_view(at).starts_with(kSection);
       at = code + image.size() + 1)
    (image += '\0') += at;
  return image + '\0';
}

/// An image that names no sections has every kernel.
bool has_kernel(const std::string& image, const std::string& name) {
  if (image.find(".text.") == std::string::npos) return true;
  return image.find(".text." + name + '\0') != std::string::npos;
}

}  // namespace

Cuda& cuda() { return state().cuda; }

void reset() {
  State& s = state();
  s.cuda = Cuda{};
  s.launches = s.loads = s.unloads = s.functions_loaded = 0;
  current_device = 0;
  last = Launch{};
}

void set_current_device(int ordinal) { current_device = ordinal; }
const Launch& last_launch() { return last; }
int num_launches() { return state().launches; }
int num_loads() { return state().loads; }
int num_unloads() { return state().unloads; }
int num_functions_loaded() { return state().functions_loaded; }
int num_live_handles() { return state().live; }

}  // namespace moegen::fake

using namespace moegen::fake;

// Each function begins like this: fails if the test said so.
#define MAY_FAIL(call) \
  if (const int planned = planned_failure(#call)) return planned

// For tests that are not C++: Cuda::args_bytes.
FAKE_API void fake_cuda_set_args_bytes(std::size_t bytes) { cuda().args_bytes = bytes; }

FAKE_API int cuInit(unsigned int) {
  MAY_FAIL(cuInit);
  return 0;
}
FAKE_API int cuDriverGetVersion(int* version) {
  MAY_FAIL(cuDriverGetVersion);
  *version = cuda().version;
  return 0;
}
FAKE_API int cuGetErrorName(int result, const char** text) {
  *text = result == 1     ? "CUDA_ERROR_INVALID_VALUE"
          : result == 200 ? "CUDA_ERROR_INVALID_IMAGE"
          : result == 201 ? "CUDA_ERROR_INVALID_CONTEXT"
          : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : nullptr;
  return *text ? 0 : 1;
}
FAKE_API int cuGetErrorString(int result, const char** text) {
  *text = result == 1 ? "invalid argument" : result == 200 ? "device kernel image is invalid" : nullptr;
  return *text ? 0 : 1;
}

FAKE_API int cuDeviceGetCount(int* count) {
  MAY_FAIL(cuDeviceGetCount);
  *count = static_cast<int>(cuda().devices.size());
  return 0;
}
FAKE_API int cuDeviceGet(int* device, int ordinal) {
  MAY_FAIL(cuDeviceGet);
  *device = ordinal;
  return exists(ordinal) ? 0 : 101;
}
FAKE_API int cuDeviceGetName(char* name, int length, int device) {
  std::strncpy(name, cuda().devices[static_cast<std::size_t>(device)].name.c_str(), static_cast<std::size_t>(length));
  return 0;
}
FAKE_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  MAY_FAIL(cuDeviceGetAttribute);
  if (!exists(device)) return 101;
  *value = attribute_of(cuda().devices[static_cast<std::size_t>(device)], static_cast<DeviceAttribute>(attribute));
  return 0;
}
FAKE_API int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{141} << 30;
  return 0;
}
FAKE_API int cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
  MAY_FAIL(cuDevicePrimaryCtxRetain);
  *context = &state().contexts[static_cast<std::size_t>(device)];
  (*context)->ordinal = device;
  ++state().live;
  return 0;
}
FAKE_API int cuDevicePrimaryCtxRelease_v2(int) {
  --state().live;
  return 0;
}
FAKE_API int cuCtxGetCurrent(CUctx_st** context) {
  *context = current_device < 0 ? nullptr : &state().contexts[static_cast<std::size_t>(current_device)];
  if (*context) (*context)->ordinal = current_device;
  return 0;
}
FAKE_API int cuCtxSetCurrent(CUctx_st* context) {
  MAY_FAIL(cuCtxSetCurrent);
  current_device = context ? context->ordinal : -1;
  return 0;
}
FAKE_API int cuCtxGetDevice(int* device) {
  MAY_FAIL(cuCtxGetDevice);
  *device = current_device;
  return current_device < 0 ? 201 : 0;
}
FAKE_API int cuCtxSynchronize() {
  MAY_FAIL(cuCtxSynchronize);
  return 0;
}

FAKE_API int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
  MAY_FAIL(cuMemAlloc);
  *pointer = reinterpret_cast<unsigned long long>(std::malloc(bytes));
  ++state().live;
  return 0;
}
FAKE_API int cuMemFree_v2(unsigned long long pointer) {
  std::free(reinterpret_cast<void*>(pointer));
  --state().live;
  return 0;
}
FAKE_API int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = *total_bytes = std::size_t{141} << 30;
  return 0;
}
FAKE_API int cuMemcpyHtoD_v2(unsigned long long destination, const void* source, std::size_t bytes) {
  MAY_FAIL(cuMemcpyHtoD);
  std::memcpy(reinterpret_cast<void*>(destination), source, bytes);
  return 0;
}
FAKE_API int cuMemcpyDtoH_v2(void* destination, unsigned long long source, std::size_t bytes) {
  MAY_FAIL(cuMemcpyDtoH);
  std::memcpy(destination, reinterpret_cast<const void*>(source), bytes);
  return 0;
}
FAKE_API int cuMemcpyHtoDAsync_v2(unsigned long long destination, const void* source, std::size_t bytes, CUstream_st*) {
  return cuMemcpyHtoD_v2(destination, source, bytes);
}
FAKE_API int cuMemcpyDtoHAsync_v2(void* destination, unsigned long long source, std::size_t bytes, CUstream_st*) {
  return cuMemcpyDtoH_v2(destination, source, bytes);
}
FAKE_API int cuMemcpyDtoDAsync_v2(unsigned long long destination, unsigned long long source, std::size_t bytes,
                                  CUstream_st*) {
  std::memcpy(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), bytes);
  return 0;
}
FAKE_API int cuMemsetD8_v2(unsigned long long destination, unsigned char value, std::size_t count) {
  std::memset(reinterpret_cast<void*>(destination), value, count);
  return 0;
}
FAKE_API int cuMemsetD8Async(unsigned long long destination, unsigned char value, std::size_t count, CUstream_st*) {
  return cuMemsetD8_v2(destination, value, count);
}
FAKE_API int cuMemsetD32Async(unsigned long long destination, unsigned int value, std::size_t count, CUstream_st*) {
  for (std::size_t i = 0; i < count; ++i) reinterpret_cast<unsigned int*>(destination)[i] = value;
  return 0;
}

FAKE_API int cuStreamCreate(CUstream_st** stream, unsigned int) {
  MAY_FAIL(cuStreamCreate);
  return make(stream);
}
FAKE_API int cuStreamDestroy_v2(CUstream_st* stream) { return destroy(stream); }
FAKE_API int cuStreamSynchronize(CUstream_st*) {
  MAY_FAIL(cuStreamSynchronize);
  return 0;
}
FAKE_API int cuStreamWaitEvent(CUstream_st*, CUevent_st*, unsigned int) { return 0; }
FAKE_API int cuStreamBeginCapture_v2(CUstream_st* stream, int) {
  MAY_FAIL(cuStreamBeginCapture);
  stream->capturing = true;
  stream->captured = 0;
  return 0;
}
FAKE_API int cuStreamEndCapture(CUstream_st* stream, CUgraph_st** graph) {
  stream->capturing = false;
  MAY_FAIL(cuStreamEndCapture);
  make(graph);
  (*graph)->launches = stream->captured;
  return 0;
}
FAKE_API int cuEventCreate(CUevent_st** event, unsigned int) { return make(event); }
FAKE_API int cuEventDestroy_v2(CUevent_st* event) { return destroy(event); }
FAKE_API int cuEventRecord(CUevent_st*, CUstream_st*) { return 0; }
FAKE_API int cuEventSynchronize(CUevent_st*) { return 0; }
FAKE_API int cuEventElapsedTime(float* milliseconds, CUevent_st*, CUevent_st*) {
  *milliseconds = 1.5f;
  return 0;
}
FAKE_API int cuGraphDestroy(CUgraph_st* graph) { return destroy(graph); }
FAKE_API int cuGraphInstantiateWithFlags(CUgraphExec_st** executable, CUgraph_st* graph, unsigned long long) {
  MAY_FAIL(cuGraphInstantiate);
  make(executable);
  (*executable)->launches = graph->launches;
  return 0;
}
FAKE_API int cuGraphExecDestroy(CUgraphExec_st* executable) { return destroy(executable); }
FAKE_API int cuGraphUpload(CUgraphExec_st*, CUstream_st*) {
  MAY_FAIL(cuGraphUpload);
  return 0;
}
FAKE_API int cuGraphLaunch(CUgraphExec_st* executable, CUstream_st*) {
  state().launches += executable->launches;
  return 0;
}

FAKE_API int cuLibraryLoadData(CUlib_st** library, const void* code, int*, void**, unsigned int, int*, void**,
                               unsigned int) {
  MAY_FAIL(cuLibraryLoadData);
  ++state().loads;
  *library = new CUlib_st{image_of(static_cast<const char*>(code)), {}};
  return 0;
}
FAKE_API int cuLibraryUnload(CUlib_st* library) {
  ++state().unloads;
  delete library;
  return 0;
}
FAKE_API int cuLibraryGetKernel(CUkern_st** kernel, CUlib_st* library, const char* name) {
  MAY_FAIL(cuLibraryGetKernel);
  const std::lock_guard lock(state().mutex);
  if (!has_kernel(library->image, name)) return 500;  // CUDA_ERROR_NOT_FOUND
  library->kernels.push_back(std::make_unique<CUkern_st>(name));
  *kernel = library->kernels.back().get();
  return 0;
}
FAKE_API int cuKernelGetFunction(CUfunc_st** function, CUkern_st* kernel) {
  MAY_FAIL(cuKernelGetFunction);
  *function = reinterpret_cast<CUfunc_st*>(kernel);
  return 0;
}
FAKE_API int cuKernelGetAttribute(int* value, int, CUkern_st*, int) {
  *value = 0;
  return 0;
}
FAKE_API int cuKernelSetAttribute(int attribute, int value, CUkern_st* kernel, int device) {
  MAY_FAIL(cuKernelSetAttribute);
  const std::lock_guard lock(state().mutex);
  cuda().attributes.push_back(kernel->name + "@" + std::to_string(device) + ":" + std::to_string(attribute) + "=" +
                              std::to_string(value));
  return 0;
}
FAKE_API int cuOccupancyMaxActiveClusters(int* clusters, CUfunc_st*, const LaunchConfig* config) {
  MAY_FAIL(cuOccupancyMaxActiveClusters);
  const auto wanted = static_cast<int>(config->attributes[0].value.cluster_dim.x);
  *clusters = wanted <= cuda().devices[static_cast<std::size_t>(current_device)].max_cluster ? 8 : 0;
  return 0;
}
FAKE_API int cuLaunchKernelEx(const LaunchConfig* config, CUfunc_st* function, void** parameters, void**) {
  MAY_FAIL(cuLaunchKernelEx);
  record(*config, function, parameters);
  if (config->stream && config->stream->capturing) {
    ++config->stream->captured;
    return 0;
  }
  ++state().launches;
  return 0;
}
FAKE_API int cuTensorMapEncodeTiled(void* map, int type, unsigned int rank, void* base, const std::uint64_t*,
                                    const std::uint64_t*, const unsigned int*, const unsigned int*, int, int swizzle,
                                    int, int) {
  MAY_FAIL(cuTensorMapEncodeTiled);
  const std::uint64_t seen[] = {static_cast<std::uint64_t>(type), rank, reinterpret_cast<std::uint64_t>(base),
                                static_cast<std::uint64_t>(swizzle)};
  std::memcpy(map, seen, sizeof seen);  // what a test may look at
  return 0;
}
FAKE_API int cuKernelGetParamInfo(CUkern_st*, std::size_t index, std::size_t* offset, std::size_t* size) {
  MAY_FAIL(cuKernelGetParamInfo);
  if (index >= static_cast<std::size_t>(cuda().num_params)) return 1;
  *offset = 0;
  *size = cuda().args_bytes;
  return 0;
}
FAKE_API int cuFuncLoad(CUfunc_st*) {
  MAY_FAIL(cuFuncLoad);
  ++state().functions_loaded;
  return 0;
}
// NOLINTEND(readability-identifier-naming)
