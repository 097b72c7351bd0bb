// SPDX-License-Identifier: Apache-2.0
// The half of the example that needs a GPU: with_cuda.cpp, or without_cuda.cpp where there is no CUDA toolkit.
#pragma once

#include <moegen/config.hpp>
#include <moegen/engine.hpp>

/// Runs create_indices and finalize of `config` in a CUDA graph and checks what comes out. Returns the exit code.
int run_on_gpu(moegen::Engine& engine, const moegen::Config& config);
