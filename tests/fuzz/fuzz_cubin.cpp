// SPDX-License-Identifier: Apache-2.0
// Whatever bytes are called a cubin: an answer or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <moegen/error.hpp>

#include "cubin_info.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    moegen::cli::read_cubin({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const moegen::Error& error) {
    if (!std::string_view(error.what()).starts_with("fuzz: ")) std::abort();
  }
  return 0;
}
