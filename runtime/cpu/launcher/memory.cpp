// SPDX-License-Identifier: Apache-2.0
// The memory of kernels on the CPU target: CpuBuffer, and the process's list of what the checks know by name.
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <moegen/cpu_target.hpp>
#include <moegen/error.hpp>

#include "cpu/buffers.hpp"

namespace moegen {
namespace {

// What cudaMalloc aligns to at least; kernels may take it for granted.
constexpr std::size_t kAlignment = 256;
// Unknown to the checks, between two buffers: an index that is a little off must not land in a neighbour.
constexpr std::size_t kGap = 256;
constexpr int kFirstByte = 0xCD;

std::uintptr_t address_of(const void* data) noexcept { return reinterpret_cast<std::uintptr_t>(data); }

char* allocate(std::size_t bytes) {
  char* memory = static_cast<char*>(::operator new(bytes + 2 * kGap, std::align_val_t{kAlignment}));
  std::memset(memory, kFirstByte, bytes + 2 * kGap);
  return memory + kGap;
}

void release(void* data) noexcept { ::operator delete(static_cast<char*>(data) - kGap, std::align_val_t{kAlignment}); }

}  // namespace

cpu::Buffers& cpu::Buffers::process() {
  static Buffers buffers;
  return buffers;
}

CpuBuffer::CpuBuffer(std::size_t bytes, std::string name) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = allocate(bytes);
  try {
    register_cpu_memory(data_, bytes, std::move(name));
  } catch (...) {
    release(data_);
    throw;
  }
}

CpuBuffer::~CpuBuffer() {
  if (data_ == nullptr) return;
  cpu::Buffers::process().remove(address_of(data_));
  release(data_);
}

CpuBuffer::CpuBuffer(CpuBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

CpuBuffer& CpuBuffer::operator=(CpuBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void register_cpu_memory(const void* data, std::size_t bytes, std::string name) {
  const std::uintptr_t begin = address_of(data);
  if (data == nullptr || bytes == 0 || begin + bytes < begin)
    throw Error(ErrorCode::config,
                fmt::format("memory '{}': {} bytes at {}; a range of one byte or more is needed", name, bytes, data));
  if (const auto known = cpu::Buffers::process().add({begin, begin + bytes, name}))
    throw Error(
        ErrorCode::config,
        fmt::format("memory '{}': overlaps '{}', which is already known; unregister that first", name, known->name));
}

void unregister_cpu_memory(const void* data) {
  if (cpu::Buffers::process().remove(address_of(data))) return;
  throw Error(ErrorCode::config,
              fmt::format("memory at {}: no known range starts there; only what was registered can be "
                          "unregistered",
                          data));
}

}  // namespace moegen
