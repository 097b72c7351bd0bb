// SPDX-License-Identifier: Apache-2.0
// KernelTable: kernels that are ready on a device, found again without an allocation or an exclusive lock.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <moegen/kernel.hpp>

namespace moegen {

/// Thread-safe map of (digest of the config, kernel, device ordinal).
class KernelTable {
 public:
  using Value = std::shared_ptr<const Kernel::State>;

  /// Null if there is none.
  Value find(std::uint64_t config_digest, std::string_view kernel, int device) const {
    const std::shared_lock lock(mutex_);
    const auto found = kernels_.find(View{config_digest, device, kernel});
    return found == kernels_.end() ? nullptr : found->second;
  }

  void insert(std::uint64_t config_digest, std::string_view kernel, int device, Value value) {
    const std::unique_lock lock(mutex_);
    kernels_.insert_or_assign(Key{config_digest, device, std::string(kernel)}, std::move(value));
  }

 private:
  struct View {
    std::uint64_t config_digest;
    int device;
    std::string_view kernel;
    bool operator==(const View&) const = default;
  };
  struct Key {
    std::uint64_t config_digest;
    int device;
    std::string kernel;
    View view() const noexcept { return {config_digest, device, kernel}; }
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const View& key) const noexcept {
      const std::size_t place = static_cast<std::size_t>(key.device) * 0x9E3779B97F4A7C15u;
      return static_cast<std::size_t>(key.config_digest) ^ std::hash<std::string_view>{}(key.kernel) ^ place;
    }
    std::size_t operator()(const Key& key) const noexcept { return (*this)(key.view()); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const View& a, const View& b) const noexcept { return a == b; }
    bool operator()(const Key& a, const View& b) const noexcept { return a.view() == b; }
    bool operator()(const View& a, const Key& b) const noexcept { return a == b.view(); }
    bool operator()(const Key& a, const Key& b) const noexcept { return a.view() == b.view(); }
  };

  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, Value, Hash, Equal> kernels_;
};

}  // namespace moegen
