// SPDX-License-Identifier: Apache-2.0
// The launch path: from an argument struct to one launch of the target, with nothing but reads in between.
#include <moegen/kernel.hpp>

#include <cstddef>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "kernel_state.hpp"

namespace moegen {
namespace {

// The faults stand apart, so that the way of an ordinary launch stays short.

[[noreturn]] void refuse_family(const Kernel::State& state, int tag) {
  throw Error(ErrorCode::config, fmt::format("{}: the arguments are of family {}; allowed those of '{}' ({})",
                                             state.label, tag, state.family.name, state.family.tag));
}

[[noreturn]] void refuse_size(const Kernel::State& state, std::size_t bytes) {
  throw Error(ErrorCode::config, fmt::format("{}: the argument struct has {} bytes; allowed {}", state.label, bytes,
                                             state.plan.args_bytes));
}

[[noreturn]] void refuse_null(const Kernel::State& state) {
  throw Error(ErrorCode::config, fmt::format("{}: the argument struct is null", state.label));
}

[[noreturn]] void refuse_argument(const Kernel::State& state, const char* fault) {
  throw Error(ErrorCode::config, fmt::format("{}: {}", state.label, fault));
}

void check_struct(const Kernel::State& state, const void* args, std::size_t bytes) {
  if (!args) [[unlikely]]
    refuse_null(state);
  if (bytes != static_cast<std::size_t>(state.plan.args_bytes)) [[unlikely]]
    refuse_size(state, bytes);
}

}  // namespace

void Kernel::run(const void* args, std::size_t args_bytes, int family_tag, CUstream_st* stream) const {
  const State& state = *state_;
  if (family_tag != state.family.tag) [[unlikely]]
    refuse_family(state, family_tag);
  check_struct(state, args, args_bytes);
  const LaunchDevice& device = state.current_device();
  if (const char* fault = state.family.check(state.constants, device, args)) [[unlikely]]
    refuse_argument(state, fault);
  const Launch what = state.family.launch(state.constants, device, args);
  if (what.grid == 0) return;
  if (!state.family.prepare) return state.launch(what, args, stream);
  alignas(64) std::byte buffer[kMaxParameterBytes];
  state.launch(what, state.family.prepare(state.constants, what, state, args, buffer), stream);
}

std::size_t Kernel::workspace_bytes(const void* args, std::size_t args_bytes) const {
  const State& state = *state_;
  check_struct(state, args, args_bytes);
  if (!state.family.workspace_bytes) return 0;
  return static_cast<std::size_t>(state.family.workspace_bytes(state.constants, state.current_device(), args));
}

const Plan& Kernel::plan() const noexcept { return state_->plan; }

Target Kernel::target() const noexcept { return state_->target(); }

}  // namespace moegen
