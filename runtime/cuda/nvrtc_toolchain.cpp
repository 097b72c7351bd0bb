// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvrtc_toolchain.hpp"

#include <utility>

#include <moegen/source.hpp>

#include "cuda/nvrtc.hpp"

namespace moegen::cuda {

std::vector<Plan> NvrtcToolchain::parts(const Plan& plan) const { return parts_of(plan); }

std::vector<std::string> NvrtcToolchain::flags(const Arch& arch) const { return compile_flags(arch); }

bool NvrtcToolchain::available(std::string* why) const { return Nvrtc::load(why) != nullptr; }

std::string NvrtcToolchain::version() const { return Nvrtc::load()->version(); }

// To know which NVRTC is on the machine, it need not be loaded.
bool NvrtcToolchain::is_current(std::string_view version) const { return Nvrtc::on_this_machine(version); }

Compiled NvrtcToolchain::compile(std::string_view source, const std::string& file_name, const Arch& arch,
                                 const std::vector<std::string>& entries) const {
  CompiledCubin made = Nvrtc::load()->compile(source, file_name, arch, entries);
  return {std::move(made.cubin), std::move(made.resources), std::move(made.log)};
}

}  // namespace moegen::cuda
