// SPDX-License-Identifier: Apache-2.0
// Pack: many entries in one relocatable, read-only file, with an index at its head.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cache/entry.hpp"

namespace moegen::cache {

/// Version of the pack's own index; the entries in it carry kFormatVersion.
inline constexpr std::uint32_t kPackVersion = 1;

/// Writes `entries` as one file (temporary in the same folder, fsync, rename). Deterministic: entries are sorted by
/// key, and their order in `entries` does not matter. Of several with the same key one is kept: the one whose compiler
/// sorts last.
/// Throws: cache, naming the path and the reason; internal as `encode` does.
void write_pack(const std::filesystem::path& path, const std::vector<Entry>& entries);

/// A pack opened for reading. The index is verified on opening, an entry when it is read. Cheap to copy, thread-safe,
/// and independent of what happens to the file's name afterwards.
class Pack {
 public:
  /// Throws: cache, naming the file and what is wrong with it.
  static Pack open(const std::filesystem::path& path);
  const std::filesystem::path& path() const noexcept;
  const std::vector<std::string>& keys() const noexcept;  ///< sorted
  /// Nothing if the pack has no such key (`bad.reason` is then empty) or its bytes are bad (`bad` then says why).
  std::optional<Entry> find(std::string_view key, BadEntry& bad) const;

 private:
  struct State;
  explicit Pack(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace moegen::cache
