// SPDX-License-Identifier: Apache-2.0
// What a compiled object says about itself behind its ELF file: a table and a digest, so that a cached object needs
// nothing else and a damaged one never reaches the linker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moegen::cpu {

struct ObjectTable {
  std::string file_name;  ///< of the text
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_offset = 0;
  std::uint32_t num_constants = 0;  ///< rows of kConstantsSymbol
  std::vector<std::string> entries;
  std::vector<std::uint32_t> max_threads;  ///< of each entry, as HostProgram::Entry has it
  std::string sites;                       ///< as Sites reads it
};

/// `elf` with `table` behind it.
std::string seal(std::string elf, const ObjectTable& table);

/// The table of a sealed object. Nothing if it is no such object or was changed.
std::optional<ObjectTable> unseal(std::string_view object);

}  // namespace moegen::cpu
