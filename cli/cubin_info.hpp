// SPDX-License-Identifier: Apache-2.0
// What a cubin says about its kernels, read with llvm::object. cubin_info.cpp is the only file that includes LLVM.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moegen::cli {

/// One argument of a kernel.
struct CubinParameter {
  unsigned offset = 0, bytes = 0;
};

/// One entry point. Nothing stands for what the file does not say.
struct CubinKernel {
  std::string name;
  std::uint64_t code_bytes = 0;
  std::optional<unsigned> registers;        ///< of one thread
  std::uint64_t shared_bytes = 0;           ///< static shared memory of one block, without the driver's own part
  std::optional<unsigned> stack_bytes;      ///< frame of one thread in local memory
  std::optional<unsigned> barriers;         ///< named barriers
  std::optional<unsigned> mbarriers;        ///< mbarrier objects that the compiler knows of
  std::vector<CubinParameter> parameters;   ///< by position
  std::optional<unsigned> parameter_bytes;  ///< of all of them
  std::optional<std::array<unsigned, 3>> max_threads, required_threads, cluster;  ///< x, y, z
};

struct CubinInfo {
  std::string arch;                  ///< "sm_90a" where the compiler recorded it, else "sm_90" from the ELF flags
  std::string compiler;              ///< e.g. "Cuda compilation tools, release 13.0, V13.0.88"; may be empty
  std::vector<CubinKernel> kernels;  ///< in the order of the file's symbols
};

/// True if `bytes` start as an ELF file.
bool is_elf(std::string_view bytes) noexcept;

/// True if this moegen was built with LLVM, which read_cubin needs.
bool can_read_cubins() noexcept;

/// Reads a cubin. Any input is safe. `origin` starts messages.
/// Throws: cache where the file is damaged, config where it is no cubin, unsupported where moegen was built without
/// LLVM.
CubinInfo read_cubin(std::string_view bytes, std::string_view origin);

}  // namespace moegen::cli
