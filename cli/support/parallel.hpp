// SPDX-License-Identifier: Apache-2.0
// Independent jobs on the machine's cores.
#pragma once

#include <cstddef>
#include <functional>

namespace moegen::cli {

/// Calls `job(0) .. job(count - 1)`, each once, on up to `threads` threads (the caller's among them), starting them in
/// order. Once a job has thrown or a signal has been noted, no further job starts. Rethrows the exception of the lowest
/// job that threw; the caller asks check_interrupt() itself.
void for_each_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job);

/// Threads that `for_each_parallel` should use: the cores this process may run on, at least 1.
unsigned available_cores();

}  // namespace moegen::cli
