// SPDX-License-Identifier: Apache-2.0
// The part of NVRTC's binary interface that moegen calls, declared here so that no CUDA header is needed to build.
// tests/nvrtc/test_nvrtc_api.cpp checks it against nvrtc.h.
#pragma once

#include <cstddef>

struct _nvrtcProgram;

namespace moegen::cuda {

using NvrtcResult = int;              ///< nvrtcResult
using NvrtcProgram = _nvrtcProgram*;  ///< nvrtcProgram

inline constexpr NvrtcResult kNvrtcSuccess = 0;
inline constexpr NvrtcResult kNvrtcErrorCompilation = 6;

/// NVRTC's functions under their own names without the prefix.
struct NvrtcApi {
  const char* (*get_error_string)(NvrtcResult result);
  NvrtcResult (*version)(int* major, int* minor);
  NvrtcResult (*get_num_supported_archs)(int* count);
  NvrtcResult (*get_supported_archs)(int* archs);
  NvrtcResult (*create_program)(NvrtcProgram* program, const char* source, const char* name, int num_headers,
                                const char* const* headers, const char* const* include_names);
  NvrtcResult (*destroy_program)(NvrtcProgram* program);
  NvrtcResult (*compile_program)(NvrtcProgram program, int num_options, const char* const* options);
  NvrtcResult (*get_program_log_size)(NvrtcProgram program, std::size_t* bytes);
  NvrtcResult (*get_program_log)(NvrtcProgram program, char* log);
  NvrtcResult (*get_cubin_size)(NvrtcProgram program, std::size_t* bytes);
  NvrtcResult (*get_cubin)(NvrtcProgram program, char* cubin);
};

}  // namespace moegen::cuda
