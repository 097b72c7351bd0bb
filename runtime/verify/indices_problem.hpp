// SPDX-License-Identifier: Apache-2.0
// create_indices' tensors on a target for given ids, and the comparison of its outputs with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <moegen/args/create_indices.h>
#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

#include "reference/create_indices.hpp"
#include "verify/guarded_buffer.hpp"
#include "verify/memory.hpp"

namespace moegen::verify {

/// `ids` in the target's memory, in the config's dtype.
Memory upload_ids(Target target, const ConfigFields& fields, const std::vector<std::int64_t>& ids);

class IndicesProblem {
 public:
  /// For `kernel`, create_indices of `config`, on its target.
  IndicesProblem(const Kernel& kernel, const Config& config, const std::vector<std::int64_t>& ids);

  const create_indices::Args& args() const noexcept { return args_; }
  const reference::Indices& want() const noexcept { return want_; }
  /// Poisons the outputs.
  void reset() const;
  /// The first output element that differs from the reference, or nothing.
  std::optional<std::string> compare() const;

 private:
  reference::Indices want_;
  Memory ids_;
  GuardedBuffer order_, starts_, restore_, experts_, stats_, scales_;
  create_indices::Args args_{};
  Memory workspace_;
};

}  // namespace moegen::verify
