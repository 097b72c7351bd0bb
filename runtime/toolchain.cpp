// SPDX-License-Identifier: Apache-2.0
#include "toolchain.hpp"

#include "cpu/launcher/clang_toolchain.hpp"
#include "cuda/nvrtc_toolchain.hpp"

namespace moegen {

std::shared_ptr<const Toolchain> make_toolchain(const EngineOptions& options) {
  if (options.target == Target::cpu) return std::make_shared<cpu::ClangToolchain>(options.cpu);
  return std::make_shared<cuda::NvrtcToolchain>();
}

}  // namespace moegen
