// SPDX-License-Identifier: Apache-2.0
// Entry: one compiled kernel as it is stored: self-describing, checked byte for byte when read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/engine.hpp>

#include "cache/key.hpp"

namespace moegen::cache {

struct Entry {
  std::vector<KeyField> key_fields;
  std::string key;       ///< digest of key_fields
  std::string compiler;  ///< e.g. "nvrtc-13.0"; not in the key: the user cache matches it exactly, packs do not
  std::string kernel;    ///< "create_indices"; for people
  std::string target;    ///< "cuda" or "cpu"
  std::string arch;      ///< "sm_90a"
  int launch_abi = 0;
  std::int64_t args_bytes = 0;
  std::vector<EntryResources> resources;
  std::string payload;  ///< the ELF, never empty
};

/// File form: magic line, format version, header length, JSON header with the fields above, payload length, payload,
/// digest of everything before it. See entry.cpp for the grammar. Deterministic.
/// Throws: internal if the payload is empty or a text of the header is not UTF-8.
std::string encode(const Entry& entry);

/// Why a stored entry was not usable.
struct BadEntry {
  std::string reason;  ///< "digest mismatch", "truncated", "format version 2, this moegen reads 1", ...
};

/// Parses and verifies bytes. Never throws on any input. `bad` is set where nothing is returned.
std::optional<Entry> decode(std::string_view bytes, BadEntry& bad);

}  // namespace moegen::cache
