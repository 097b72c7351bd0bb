// SPDX-License-Identifier: Apache-2.0
// A compiler that compiles nothing: its cubin holds the entry points that the source names, so that everything around a
// compile can be tested in microseconds and on machines without CUDA. Its soname is libnvrtc.so.13.
#pragma once

#include <atomic>
#include <string>

namespace moegen::fake {

/// What the compiler does. Change it between compiles only.
struct Nvrtc {
  std::string failure;           ///< not empty: the next compiles fail with this log
  std::string spilling_entry;    ///< this entry point spills 24 bytes stored, 16 loaded
  std::string missing_entry;     ///< this one is not in the cubin
  std::string unreported_entry;  ///< this one is not in the report
  bool empty_cubin = false;
  int milliseconds = 0;  ///< how long a compile takes
  std::string last_options, last_name;
};

Nvrtc& nvrtc();
void reset_nvrtc();
int num_compiles();

}  // namespace moegen::fake
