// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver.hpp"

#include <memory>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "shared_library.hpp"

namespace moegen::cuda {
namespace {

constexpr const char* kDriverFile = "libcuda.so.1";
constexpr std::string_view kHowToGetOne =
    "install the NVIDIA driver (525.60 or later, for CUDA 12.0), or in a container start it with access to the GPUs";

/// Fills the table from one library and remembers the first function that is not there.
class Binder {
 public:
  explicit Binder(const SharedLibrary& library) : library_(library) {}

  template <class Function>
  void required(Function*& slot, const char* name) {
    optional(slot, name);
    if (!slot && missing_.empty()) missing_ = name;
  }

  template <class Function>
  void optional(Function*& slot, const char* name) {
    slot = reinterpret_cast<Function*>(library_.find(name));
  }

  const std::string& missing() const noexcept { return missing_; }

 private:
  const SharedLibrary& library_;
  std::string missing_;
};

void bind_devices(Binder& bind, Driver& driver) {
  bind.required(driver.init, "cuInit");
  bind.required(driver.driver_get_version, "cuDriverGetVersion");
  bind.required(driver.get_error_name, "cuGetErrorName");
  bind.required(driver.get_error_string, "cuGetErrorString");
  bind.required(driver.device_get_count, "cuDeviceGetCount");
  bind.required(driver.device_get, "cuDeviceGet");
  bind.required(driver.device_get_name, "cuDeviceGetName");
  bind.required(driver.device_get_attribute, "cuDeviceGetAttribute");
  bind.required(driver.device_total_mem, "cuDeviceTotalMem_v2");
  bind.required(driver.primary_context_retain, "cuDevicePrimaryCtxRetain");
  bind.required(driver.primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  bind.required(driver.context_get_current, "cuCtxGetCurrent");
  bind.required(driver.context_set_current, "cuCtxSetCurrent");
  bind.required(driver.context_get_device, "cuCtxGetDevice");
  bind.required(driver.context_synchronize, "cuCtxSynchronize");
}

void bind_memory(Binder& bind, Driver& driver) {
  bind.required(driver.mem_alloc, "cuMemAlloc_v2");
  bind.required(driver.mem_free, "cuMemFree_v2");
  bind.required(driver.mem_get_info, "cuMemGetInfo_v2");
  bind.required(driver.memcpy_host_to_device, "cuMemcpyHtoD_v2");
  bind.required(driver.memcpy_device_to_host, "cuMemcpyDtoH_v2");
  bind.required(driver.memcpy_host_to_device_async, "cuMemcpyHtoDAsync_v2");
  bind.required(driver.memcpy_device_to_host_async, "cuMemcpyDtoHAsync_v2");
  bind.required(driver.memcpy_device_to_device_async, "cuMemcpyDtoDAsync_v2");
  bind.required(driver.memset_8, "cuMemsetD8_v2");
  bind.required(driver.memset_8_async, "cuMemsetD8Async");
  bind.required(driver.memset_32_async, "cuMemsetD32Async");
}

void bind_streams(Binder& bind, Driver& driver) {
  bind.required(driver.stream_create, "cuStreamCreate");
  bind.required(driver.stream_destroy, "cuStreamDestroy_v2");
  bind.required(driver.stream_synchronize, "cuStreamSynchronize");
  bind.required(driver.stream_wait_event, "cuStreamWaitEvent");
  bind.required(driver.stream_begin_capture, "cuStreamBeginCapture_v2");
  bind.required(driver.stream_end_capture, "cuStreamEndCapture");
  bind.required(driver.event_create, "cuEventCreate");
  bind.required(driver.event_destroy, "cuEventDestroy_v2");
  bind.required(driver.event_record, "cuEventRecord");
  bind.required(driver.event_synchronize, "cuEventSynchronize");
  bind.required(driver.event_elapsed_time, "cuEventElapsedTime");
  bind.required(driver.graph_destroy, "cuGraphDestroy");
  bind.required(driver.graph_instantiate, "cuGraphInstantiateWithFlags");
  bind.required(driver.graph_exec_destroy, "cuGraphExecDestroy");
  bind.required(driver.graph_upload, "cuGraphUpload");
  bind.required(driver.graph_launch, "cuGraphLaunch");
}

void bind_kernels(Binder& bind, Driver& driver) {
  bind.required(driver.library_load_data, "cuLibraryLoadData");
  bind.required(driver.library_unload, "cuLibraryUnload");
  bind.required(driver.library_get_kernel, "cuLibraryGetKernel");
  bind.required(driver.kernel_get_function, "cuKernelGetFunction");
  bind.required(driver.kernel_get_attribute, "cuKernelGetAttribute");
  bind.required(driver.kernel_set_attribute, "cuKernelSetAttribute");
  bind.required(driver.occupancy_max_active_clusters, "cuOccupancyMaxActiveClusters");
  bind.required(driver.launch_kernel_ex, "cuLaunchKernelEx");
  bind.required(driver.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  bind.optional(driver.kernel_get_param_info, "cuKernelGetParamInfo");
  bind.optional(driver.func_load, "cuFuncLoad");
}

std::string bind_all(const SharedLibrary& library, Driver& driver) {
  Binder bind(library);
  bind_devices(bind, driver);
  bind_memory(bind, driver);
  bind_streams(bind, driver);
  bind_kernels(bind, driver);
  return bind.missing();
}

/// Empty if the driver answers; else why it does not.
std::string initialise(Driver& driver) {
  if (const Result result = driver.init(0); result != kSuccess)
    return fmt::format("cuInit failed with {}", result_text(driver, result));
  if (const Result result = driver.driver_get_version(&driver.version); result != kSuccess)
    return fmt::format("cuDriverGetVersion failed with {}", result_text(driver, result));
  return "";
}

std::string too_old(const Driver& driver, const std::string& missing) {
  int version = 0;
  if (driver.driver_get_version) driver.driver_get_version(&version);
  const std::string supports = version ? fmt::format(" (it supports CUDA {})", version_text(version)) : "";
  return fmt::format("'{}' has no {}{}; moegen needs a driver for CUDA 12.0 or later (525.60)", driver.path, missing,
                     supports);
}

struct Loaded {
  const Driver* driver = nullptr;
  std::string why;
};

const Loaded& loaded_once() {
  static const Loaded loaded = [] {
    Loaded result;
    result.driver = load_driver(kDriverFile, result.why);
    return result;
  }();
  return loaded;
}

}  // namespace

const Driver* load_driver(const std::string& file, std::string& why) {
  std::string reason;
  const auto library = SharedLibrary::open(file, reason);
  if (!library) {
    why = fmt::format("no CUDA driver: {}; {}", reason, kHowToGetOne);
    return nullptr;
  }
  auto driver = std::make_unique<Driver>();
  driver->path = library->path();
  if (const std::string missing = bind_all(*library, *driver); !missing.empty()) {
    why = too_old(*driver, missing);
    return nullptr;
  }
  if (const std::string failure = initialise(*driver); !failure.empty()) {
    why = fmt::format("the CUDA driver '{}' does not work: {}; {}", driver->path, failure, kHowToGetOne);
    return nullptr;
  }
  return driver.release();  // lives as long as the process, like the library behind it
}

const Driver* find_driver(std::string* why) {
  const Loaded& loaded = loaded_once();
  if (!loaded.driver && why) *why = loaded.why;
  return loaded.driver;
}

const Driver& driver() {
  const Loaded& loaded = loaded_once();
  if (!loaded.driver) throw Error(ErrorCode::unsupported, loaded.why);
  return *loaded.driver;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string result_text(const Driver& driver, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.get_error_name(result, &name);
  driver.get_error_string(result, &text);
  return fmt::format("{} ({}: {})", name ? name : "an error unknown to this driver", result,
                     text ? text : "no description");
}

void throw_driver_error(Result result, std::string_view call, std::string_view object) {
  throw Error(ErrorCode::driver, fmt::format("{}: {} failed with {}", object, call, result_text(driver(), result)));
}

}  // namespace moegen::cuda
