// SPDX-License-Identifier: Apache-2.0
#include <moegen/error.hpp>

namespace moegen {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::config: return "config";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::compile: return "compile";
    case ErrorCode::cache: return "cache";
    case ErrorCode::driver: return "driver";
    case ErrorCode::kernel: return "kernel";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

}  // namespace moegen
