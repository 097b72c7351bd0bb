// SPDX-License-Identifier: Apache-2.0
// Stands in for with_cuda.cpp where the CUDA toolkit was not found.

#include <cstdio>

#include "run_on_gpu.hpp"

int run_on_gpu(moegen::Engine&, const moegen::Config&) {
  std::puts("built without the CUDA toolkit: nothing is run");
  return 0;
}
