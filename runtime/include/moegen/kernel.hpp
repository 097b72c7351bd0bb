// SPDX-License-Identifier: Apache-2.0
// Kernel: a resolved, loaded kernel. Cheap to copy, thread-safe, and legal inside CUDA graph capture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include <moegen/plan.hpp>
#include <moegen/target.hpp>

struct CUstream_st;  // cuda.h's CUstream is a pointer to this

namespace moegen {

class Kernel {
 public:
  /// Launches on `stream` of the calling thread's current context. Allocates nothing, locks nothing, reads no
  /// environment and never synchronises. Where the arguments describe no work (zero tokens), launches nothing.
  /// On the CPU target: runs to its end before it returns, `stream` is not looked at, pointers are the host's, and it
  /// may allocate.
  /// Throws: config if an argument is wrong (null or misaligned pointer, negative count), naming it;
  ///         driver if the launch is refused; kernel (KernelError) for what the CPU target found.
  template <class Args>
  void run(const Args& args, CUstream_st* stream) const {
    static_assert(std::is_trivially_copyable_v<Args>);
    run(&args, sizeof(Args), Args::kFamily, stream);
  }

  /// Same, for callers that hold the argument struct as bytes (the C ABI).
  void run(const void* args, std::size_t args_bytes, int family_tag, CUstream_st* stream) const;

  /// Bytes of workspace that `run` needs for `args`; zeroed by the caller once, left zeroed by every launch; one
  /// workspace serves one stream at a time. 0 if none is needed.
  std::size_t workspace_bytes(const void* args, std::size_t args_bytes) const;

  const Plan& plan() const noexcept;
  Target target() const noexcept;

  struct State;
  explicit Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace moegen
