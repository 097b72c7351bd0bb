// SPDX-License-Identifier: Apache-2.0
// A driver without a GPU: it has the functions that moegen calls, remembers what it was asked and fails when told to.
// Tests link it; its soname is libcuda.so.1, so moegen's dlopen finds it already in the process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace moegen::fake {

struct Device {
  std::string name = "Fake H200";
  int major = 9, minor = 0;
  int num_sms = 132;
  bool clusters = true;
  int max_cluster = 16;  ///< the largest that cuOccupancyMaxActiveClusters says fits
};

/// One launch, without anything that allocates.
struct Launch {
  unsigned int grid = 0, block = 0, shared = 0;
  void* stream = nullptr;
  void* kernel = nullptr;
  int cluster = 0, cooperative = 0, dependent = 0;  ///< 0 where the attribute was absent
  unsigned int num_attributes = 0;
  std::array<unsigned char, 256> args{};
};

/// What the driver is and does. Change it between calls only, never while other threads run.
struct Cuda {
  int version = 13000;
  std::vector<Device> devices{Device{}};
  std::size_t args_bytes = 0;  ///< what cuKernelGetParamInfo says; as much of it is kept of each launch
  int num_params = 1;
  std::map<std::string, int> fail;  ///< call -> CUresult that it returns from now on
  /// Attributes set, as "kernel@device:attribute=value".
  std::vector<std::string> attributes;
};

Cuda& cuda();
/// Everything as at the start: one device, current on this thread, nothing remembered.
void reset();
/// Which device's context is current on this thread; -1: none.
void set_current_device(int ordinal);
/// The last launch of this thread, and the number of launches of all.
const Launch& last_launch();
int num_launches();
int num_loads();
int num_unloads();
int num_functions_loaded();
/// Handles that are still owned: device memory, streams, events, graphs.
int num_live_handles();

}  // namespace moegen::fake
