// SPDX-License-Identifier: Apache-2.0
// Memory: the entries that this process has already seen; the first place where a lookup goes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cache/entry.hpp"

namespace moegen::cache {

class Memory {
 public:
  /// Forgets what came first once the payloads exceed `max_bytes`; the newest entry always stays.
  explicit Memory(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// The entry that answered (key, compiler) before; null if none did. An empty `compiler` takes any. Allocates
  /// nothing.
  std::shared_ptr<const Entry> find(const std::string& key, std::string_view compiler) const;

  /// Remembers `entry` as the answer to (key, compiler). Returns the one that is remembered: the first.
  std::shared_ptr<const Entry> insert(const std::string& key, std::string_view compiler,
                                      std::shared_ptr<const Entry> entry);

 private:
  struct Answer {
    std::string compiler;  // as asked for; a pack's entry may come from another
    std::shared_ptr<const Entry> entry;
  };
  std::shared_ptr<const Entry> find_locked(const std::string& key, std::string_view compiler) const;
  void forget_oldest();

  const std::uint64_t max_bytes_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::vector<Answer>> answers_;
  std::deque<std::string> order_;  // keys, first remembered first
  std::uint64_t bytes_ = 0;
};

}  // namespace moegen::cache
