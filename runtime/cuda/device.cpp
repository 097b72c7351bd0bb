// SPDX-License-Identifier: Apache-2.0
#include "cuda/device.hpp"

#include <array>

#include <fmt/core.h>

#include <moegen/error.hpp>

namespace moegen::cuda {
namespace {

std::string ordinal_label(int ordinal) { return fmt::format("device {}", ordinal); }

int attribute(DeviceHandle device, DeviceAttribute which, const std::string& object) {
  int value = 0;
  check(driver().device_get_attribute(&value, which, device), "cuDeviceGetAttribute", object);
  return value;
}

std::string name_of(DeviceHandle device, const std::string& object) {
  std::array<char, 256> name{};
  check(driver().device_get_name(name.data(), static_cast<int>(name.size()) - 1, device), "cuDeviceGetName", object);
  return name.data();
}

// A memset, and a copy from pageable memory once its source is staged, may still be running when the call returns, and
// a stream made with kStreamNonBlocking does not wait for it.
void finish_default_stream() { check(driver().context_synchronize(), "cuCtxSynchronize", "device buffer"); }

}  // namespace

std::string DeviceInfo::label() const { return fmt::format("device {} ({}, sm_{}{})", ordinal, name, major, minor); }

int num_devices() {
  const Driver* driver = find_driver();
  int count = 0;
  return driver && driver->device_get_count(&count) == kSuccess ? count : 0;
}

DeviceInfo device_info(int ordinal) {
  const std::string object = ordinal_label(ordinal);
  DeviceHandle device = 0;
  check(driver().device_get(&device, ordinal), "cuDeviceGet", object);
  DeviceInfo info;
  info.ordinal = ordinal;
  info.name = name_of(device, object);
  info.major = attribute(device, DeviceAttribute::compute_capability_major, object);
  info.minor = attribute(device, DeviceAttribute::compute_capability_minor, object);
  info.num_sms = attribute(device, DeviceAttribute::multiprocessor_count, object);
  info.max_shared_bytes = attribute(device, DeviceAttribute::max_shared_memory_per_block_optin, object);
  info.l2_bytes = attribute(device, DeviceAttribute::l2_cache_size, object);
  info.clusters = attribute(device, DeviceAttribute::cluster_launch, object) != 0;
  std::size_t bytes = 0;
  check(driver().device_total_mem(&bytes, device), "cuDeviceTotalMem", object);
  info.memory_bytes = bytes;
  return info;
}

int current_device() {
  DeviceHandle device = 0;
  const Result result = driver().context_get_device(&device);
  if (result == kErrorInvalidContext)
    throw Error(ErrorCode::driver,
                "no CUDA context is current on this thread; make one current first (cudaSetDevice, cuCtxSetCurrent)");
  check(result, "cuCtxGetDevice", "current context");
  return device;
}

PrimaryContext::PrimaryContext(int ordinal) {
  const std::string object = ordinal_label(ordinal);
  check(driver().device_get(&device_, ordinal), "cuDeviceGet", object);
  check(driver().context_get_current(&former_), "cuCtxGetCurrent", object);
  check(driver().primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain", object);
  if (const Result result = driver().context_set_current(context_); result != kSuccess) {
    driver().primary_context_release(device_);
    throw_driver_error(result, "cuCtxSetCurrent", object);
  }
}

PrimaryContext::~PrimaryContext() {
  driver().context_set_current(former_);
  driver().primary_context_release(device_);
}

void PrimaryContext::synchronize() const {
  check(driver().context_synchronize(), "cuCtxSynchronize", ordinal_label(device_));
}

Stream::Stream() {
  StreamHandle handle = nullptr;
  check(driver().stream_create(&handle, kStreamNonBlocking), "cuStreamCreate", "stream");
  handle_ = decltype(handle_)(handle);
}

void Stream::synchronize() const { check(driver().stream_synchronize(get()), "cuStreamSynchronize", "stream"); }

void Stream::wait(const Event& event) const {
  check(driver().stream_wait_event(get(), event.get(), 0), "cuStreamWaitEvent", "stream");
}

Event::Event() {
  EventHandle handle = nullptr;
  check(driver().event_create(&handle, kEventDefault), "cuEventCreate", "event");
  handle_ = decltype(handle_)(handle);
}

void Event::record(const Stream& stream) const {
  check(driver().event_record(get(), stream.get()), "cuEventRecord", "event");
}

void Event::synchronize() const { check(driver().event_synchronize(get()), "cuEventSynchronize", "event"); }

float Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  check(driver().event_elapsed_time(&milliseconds, start.get(), get()), "cuEventElapsedTime", "event");
  return milliseconds;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  DevicePointer pointer = 0;
  check(driver().mem_alloc(&pointer, bytes), "cuMemAlloc", fmt::format("device buffer of {} bytes", bytes));
  memory_ = decltype(memory_)(pointer);
}

void DeviceBuffer::check_range(std::size_t bytes, std::size_t offset, const char* what) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return;
  throw Error(ErrorCode::internal,
              fmt::format("device buffer: {} of {} bytes at {} runs past its end at {}", what, bytes, offset, bytes_));
}

void DeviceBuffer::upload(const void* source, std::size_t bytes, std::size_t offset) const {
  check_range(bytes, offset, "upload");
  if (bytes == 0) return;
  check(driver().memcpy_host_to_device(address() + offset, source, bytes), "cuMemcpyHtoD", "device buffer");
  finish_default_stream();
}

void DeviceBuffer::download(void* destination, std::size_t bytes, std::size_t offset) const {
  check_range(bytes, offset, "download");
  if (bytes == 0) return;
  check(driver().memcpy_device_to_host(destination, address() + offset, bytes), "cuMemcpyDtoH", "device buffer");
}

void DeviceBuffer::fill(unsigned char value) const {
  if (bytes_ == 0) return;
  check(driver().memset_8(address(), value, bytes_), "cuMemsetD8", "device buffer");
  finish_default_stream();
}

void DeviceBuffer::fill(unsigned char value, const Stream& stream) const {
  if (bytes_ == 0) return;
  check(driver().memset_8_async(address(), value, bytes_, stream.get()), "cuMemsetD8Async", "device buffer");
}

void copy(const DeviceBuffer& destination, const DeviceBuffer& source, std::size_t bytes, const Stream& stream) {
  if (bytes > destination.size() || bytes > source.size())
    throw Error(ErrorCode::internal, fmt::format("device buffer: copy of {} bytes from one of {} to one of {}", bytes,
                                                 source.size(), destination.size()));
  if (bytes == 0) return;
  check(driver().memcpy_device_to_device_async(destination.address(), source.address(), bytes, stream.get()),
        "cuMemcpyDtoDAsync", "device buffer");
}

void Graph::begin(const Stream& stream) {
  check(driver().stream_begin_capture(stream.get(), kStreamCaptureModeThreadLocal), "cuStreamBeginCapture", "graph");
}

void Graph::abandon(const Stream& stream) noexcept {
  GraphHandle graph = nullptr;
  driver().stream_end_capture(stream.get(), &graph);
  if (graph) driver().graph_destroy(graph);
}

Graph Graph::end(const Stream& stream) {
  GraphHandle handle = nullptr;
  check(driver().stream_end_capture(stream.get(), &handle), "cuStreamEndCapture", "graph");
  const Owner<GraphHandle, &Driver::graph_destroy> graph(handle);
  GraphExecHandle executable = nullptr;
  check(driver().graph_instantiate(&executable, graph.get(), 0), "cuGraphInstantiate", "graph");
  Graph result(executable);
  check(driver().graph_upload(executable, stream.get()), "cuGraphUpload", "graph");
  return result;
}

void Graph::launch(const Stream& stream) const {
  check(driver().graph_launch(executable_.get(), stream.get()), "cuGraphLaunch", "graph");
}

}  // namespace moegen::cuda
