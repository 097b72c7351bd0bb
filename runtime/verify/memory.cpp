// SPDX-License-Identifier: Apache-2.0
#include "verify/memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include <moegen/cpu_target.hpp>

namespace moegen::verify {
namespace {

constexpr std::size_t kAlignment = 256;

char* allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (!memory) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

}  // namespace

void HostMemory::Free::operator()(char* memory) const noexcept { std::free(memory); }

void HostMemory::Forget::operator()(char* known) const noexcept { unregister_cpu_memory(known); }

HostMemory::HostMemory(const std::string& name, std::size_t bytes, std::size_t guard_bytes) : memory_(allocate(bytes)) {
  if (bytes == 2 * guard_bytes) return;
  register_cpu_memory(data() + guard_bytes, bytes - 2 * guard_bytes, name);
  known_.reset(data() + guard_bytes);
}

Memory::Memory(Target target, const std::string& name, std::size_t bytes, std::size_t guard_bytes) : bytes_(bytes) {
  if (target == Target::cuda)
    memory_ = cuda::DeviceBuffer(bytes);
  else if (bytes > 0)
    memory_ = HostMemory(name, bytes, guard_bytes);
}

void* Memory::address() const noexcept {
  if (const auto* host = std::get_if<HostMemory>(&memory_)) return host->data();
  return std::get_if<cuda::DeviceBuffer>(&memory_)->data();
}

void Memory::upload(const void* source, std::size_t bytes, std::size_t offset) const {
  if (const auto* device = std::get_if<cuda::DeviceBuffer>(&memory_)) return device->upload(source, bytes, offset);
  std::memcpy(data<char>() + offset, source, bytes);
}

void Memory::download(void* destination, std::size_t bytes, std::size_t offset) const {
  if (const auto* device = std::get_if<cuda::DeviceBuffer>(&memory_))
    return device->download(destination, bytes, offset);
  std::memcpy(destination, data<char>() + offset, bytes);
}

void Memory::fill(unsigned char value) const {
  if (const auto* device = std::get_if<cuda::DeviceBuffer>(&memory_)) return device->fill(value);
  std::memset(data(), value, bytes_);
}

void run_to_end(const Kernel& kernel, const void* args, std::size_t args_bytes, int family_tag) {
  if (kernel.target() == Target::cpu) return kernel.run(args, args_bytes, family_tag, nullptr);
  const cuda::Stream stream;
  kernel.run(args, args_bytes, family_tag, stream.get());
  stream.synchronize();
}

}  // namespace moegen::verify
