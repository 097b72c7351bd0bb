// SPDX-License-Identifier: Apache-2.0
// Devices, contexts, memory, streams, events and graphs as small owners. verify, bench, doctor and the GPU tests use
// them; Engine and Kernel never allocate device memory. Everything here throws: driver, naming object, call and result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/driver.hpp"

namespace moegen::cuda {

struct DeviceInfo {
  int ordinal = 0;
  std::string name;  ///< "NVIDIA H200"
  int major = 0, minor = 0;
  int num_sms = 0;
  int max_shared_bytes = 0;  ///< dynamic shared memory one block may ask for
  std::int64_t l2_bytes = 0;
  std::uint64_t memory_bytes = 0;
  bool clusters = false;

  /// "device 0 (NVIDIA H200, sm_90)": how messages name it.
  std::string label() const;
};

/// Number of devices; 0 without a driver or without a device.
int num_devices();
/// Throws: unsupported without a driver; driver for an ordinal that does not exist.
DeviceInfo device_info(int ordinal);
/// Device of the calling thread's current context. Throws: driver if no context is current.
int current_device();

/// Retains a device's primary context (the one that CUDA's runtime API uses) and makes it the calling thread's current
/// context; puts the former one back when it goes. Neither copied nor moved: it must end on the thread it began on.
class PrimaryContext {
 public:
  explicit PrimaryContext(int ordinal = 0);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  int ordinal() const noexcept { return device_; }
  /// Waits for all work of the context.
  void synchronize() const;

 private:
  DeviceHandle device_ = 0;
  ContextHandle context_ = nullptr, former_ = nullptr;
};

/// Owns one handle that `destroy` ends. Movable.
template <class Handle, Result (*Driver::*destroy)(Handle)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) noexcept : handle_(handle) {}
  ~Owner() {
    if (handle_) (driver().*destroy)(handle_);
  }
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle get() const noexcept { return handle_; }

 private:
  Handle handle_{};
};

class Event;

/// A stream that does not wait for the default stream.
class Stream {
 public:
  Stream();
  StreamHandle get() const noexcept { return handle_.get(); }
  void synchronize() const;
  void wait(const Event& event) const;

 private:
  Owner<StreamHandle, &Driver::stream_destroy> handle_;
};

/// An event that records time.
class Event {
 public:
  Event();
  EventHandle get() const noexcept { return handle_.get(); }
  void record(const Stream& stream) const;
  void synchronize() const;
  /// Milliseconds from `start` to this event; both must have been reached.
  float milliseconds_since(const Event& start) const;

 private:
  Owner<EventHandle, &Driver::event_destroy> handle_;
};

/// Device memory of the context that is current when it is made. `bytes` = 0 owns nothing and has a null pointer.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes);

  DevicePointer address() const noexcept { return memory_.get(); }
  template <class T = void>
  T* data() const noexcept {
    return reinterpret_cast<T*>(memory_.get());
  }
  std::size_t size() const noexcept { return bytes_; }

  /// Copy `bytes` from or to the host, at `offset`; finished when they return. Throws: internal past the end.
  void upload(const void* source, std::size_t bytes, std::size_t offset = 0) const;
  void download(void* destination, std::size_t bytes, std::size_t offset = 0) const;
  /// Sets every byte; ordered on `stream`, or finished on return.
  void fill(unsigned char value) const;
  void fill(unsigned char value, const Stream& stream) const;

  template <class T>
  static DeviceBuffer of(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    DeviceBuffer buffer(values.size() * sizeof(T));
    buffer.upload(values.data(), buffer.size());
    return buffer;
  }
  template <class T>
  std::vector<T> to_vector() const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> values(bytes_ / sizeof(T));
    download(values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  void check_range(std::size_t bytes, std::size_t offset, const char* what) const;
  Owner<DevicePointer, &Driver::mem_free> memory_;
  std::size_t bytes_ = 0;
};

/// Device-to-device copy of `bytes` from the start of one buffer to the start of the other, ordered on `stream`.
void copy(const DeviceBuffer& destination, const DeviceBuffer& source, std::size_t bytes, const Stream& stream);

/// An instantiated CUDA graph of what `record` put on a stream.
class Graph {
 public:
  /// Captures everything that `record()` launches on `stream`, then instantiates and uploads it.
  /// An exception of `record` ends the capture and goes on to the caller.
  template <class Record>
  static Graph capture(const Stream& stream, Record&& record) {
    begin(stream);
    try {
      record();
    } catch (...) {
      abandon(stream);
      throw;
    }
    return end(stream);
  }
  void launch(const Stream& stream) const;

 private:
  static void begin(const Stream& stream);
  static void abandon(const Stream& stream) noexcept;
  static Graph end(const Stream& stream);
  explicit Graph(GraphExecHandle executable) : executable_(executable) {}
  Owner<GraphExecHandle, &Driver::graph_exec_destroy> executable_;
};

}  // namespace moegen::cuda
