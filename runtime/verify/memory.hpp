// SPDX-License-Identifier: Apache-2.0
// Memory of the target that kernels under test run on, and a launch that is over when it returns.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <moegen/kernel.hpp>
#include <moegen/target.hpp>

#include "cuda/device.hpp"

namespace moegen::verify {

/// Host memory, 256-byte aligned, of which the checks of the CPU target know the part between two guards.
class HostMemory {
 public:
  HostMemory(const std::string& name, std::size_t bytes, std::size_t guard_bytes);
  char* data() const noexcept { return memory_.get(); }

 private:
  struct Free {
    void operator()(char* memory) const noexcept;
  };
  struct Forget {
    void operator()(char* known) const noexcept;
  };
  std::unique_ptr<char, Free> memory_;
  std::unique_ptr<char, Forget> known_;
};

/// Memory on a target. Copies are finished when they return. Movable. `bytes` = 0 owns nothing and has a null pointer.
class Memory {
 public:
  Memory() = default;
  /// `name` stands for it in reports of the CPU target, which take its first and last `guard_bytes` for foreign.
  Memory(Target target, const std::string& name, std::size_t bytes, std::size_t guard_bytes = 0);

  template <class T = void>
  T* data() const noexcept {
    return static_cast<T*>(address());
  }
  std::size_t size() const noexcept { return bytes_; }
  void upload(const void* source, std::size_t bytes, std::size_t offset = 0) const;
  void download(void* destination, std::size_t bytes, std::size_t offset = 0) const;
  void fill(unsigned char value) const;

  template <class T>
  static Memory of(Target target, const std::string& name, const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    Memory memory(target, name, values.size() * sizeof(T));
    memory.upload(values.data(), memory.size());
    return memory;
  }

 private:
  void* address() const noexcept;
  std::variant<cuda::DeviceBuffer, HostMemory> memory_;
  std::size_t bytes_ = 0;
};

/// Launches and waits for the end.
void run_to_end(const Kernel& kernel, const void* args, std::size_t args_bytes, int family_tag);

template <class Args>
void run_to_end(const Kernel& kernel, const Args& args) {
  run_to_end(kernel, &args, sizeof(Args), Args::kFamily);
}

}  // namespace moegen::verify
