// SPDX-License-Identifier: Apache-2.0
// A kernel text on the GPU: compiled with NVRTC, loaded, launched.
#pragma once

#include <string>
#include <vector>

#include <moegen/arch.hpp>

#include "cuda/device.hpp"
#include "cuda/nvrtc.hpp"
#include "support/skip.hpp"
#include "support/text_launch.hpp"

namespace moegen::test {

class GpuText {
 public:
  GpuText(const std::string& text, const std::string& file_name, const Arch& arch,
          const std::vector<std::string>& entries) {
    std::string why;
    const auto nvrtc = cuda::Nvrtc::load(&why);
    if (!nvrtc) skip(why);
    cubin_ = nvrtc->compile(text, file_name, arch, entries).cubin;
    cuda::check(cuda::driver().library_load_data(&library_, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                "cuLibraryLoadData", file_name);
  }
  ~GpuText() { cuda::driver().library_unload(library_); }
  GpuText(const GpuText&) = delete;
  GpuText& operator=(const GpuText&) = delete;

  /// Runs `entry` to its end. `parameters` as for cuLaunchKernelEx.
  void run(const std::string& entry, const TextLaunch& launch, void** parameters) const {
    cuda::KernelHandle kernel = nullptr;
    cuda::FunctionHandle function = nullptr;
    cuda::check(cuda::driver().library_get_kernel(&kernel, library_, entry.c_str()), "cuLibraryGetKernel", entry);
    cuda::check(cuda::driver().kernel_set_attribute(cuda::FunctionAttribute::max_dynamic_shared_size_bytes,
                                                    static_cast<int>(launch.shared_bytes), kernel, 0),
                "cuKernelSetAttribute", entry);
    cuda::check(cuda::driver().kernel_get_function(&function, kernel), "cuKernelGetFunction", entry);
    cuda::LaunchAttribute attribute{};
    attribute.id = cuda::LaunchAttributeId::cluster_dimension;
    attribute.value.cluster_dim = {launch.cluster, 1, 1};
    cuda::LaunchConfig config{};
    config.grid_dim_x = launch.grid;
    config.block_dim_x = launch.block;
    config.grid_dim_y = config.grid_dim_z = config.block_dim_y = config.block_dim_z = 1;
    config.shared_mem_bytes = launch.shared_bytes;
    config.attributes = &attribute;
    config.num_attributes = launch.cluster > 1 ? 1 : 0;
    cuda::check(cuda::driver().launch_kernel_ex(&config, function, parameters, nullptr), "cuLaunchKernelEx", entry);
    cuda::check(cuda::driver().context_synchronize(), "cuCtxSynchronize", entry);
  }

 private:
  std::string cubin_;
  cuda::LibraryHandle library_ = nullptr;
};

}  // namespace moegen::test
