// SPDX-License-Identifier: Apache-2.0
// What every GPU test begins with.
#pragma once

#include <moegen/engine.hpp>

#include "cuda/device.hpp"
#include "support/skip.hpp"

namespace moegen::test {

/// Ends the test where there is no device.
inline void require_device() {
  if (cuda::num_devices() == 0) skip_without_gpu("there is no CUDA device");
}

/// An Engine with the default cache, whatever MOEGEN_CACHE_DIR says.
inline Engine memory_engine() {
  EngineOptions options = EngineOptions::from_environment();
  options.cache_dir.clear();
  return Engine(options);
}

}  // namespace moegen::test
