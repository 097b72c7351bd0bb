// SPDX-License-Identifier: Apache-2.0
#include "support/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "support/interrupt.hpp"

namespace moegen::cli {
namespace {

class Jobs {
 public:
  Jobs(std::size_t count, const std::function<void(std::size_t)>& job) : count_(count), job_(job) {}

  void work() {
    while (!stop_ && !interrupt_requested()) {
      const std::size_t index = next_.fetch_add(1);
      if (index >= count_) return;
      run(index);
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run(std::size_t index) {
    try {
      job_(index);
    } catch (...) {
      stop_ = true;
      keep(index, std::current_exception());
    }
  }

  void keep(std::size_t index, const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    if (error_ && index > error_index_) return;
    error_ = error;
    error_index_ = index;
  }

  const std::size_t count_;
  const std::function<void(std::size_t)>& job_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::size_t error_index_ = 0;
};

/// False where a limit on threads is reached: those that there are do the work.
bool add_worker(std::vector<std::jthread>& workers, Jobs& jobs) {
  try {
    workers.emplace_back([&jobs] { jobs.work(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

void for_each_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job) {
  Jobs jobs(count, job);
  std::vector<std::jthread> workers;
  const std::size_t wanted = std::min<std::size_t>(threads, count);
  while (workers.size() + 1 < wanted && add_worker(workers, jobs)) continue;
  jobs.work();
  workers.clear();
  jobs.rethrow();
}

unsigned available_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace moegen::cli
