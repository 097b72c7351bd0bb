// SPDX-License-Identifier: Apache-2.0
// libFuzzer target of the two readers of the cache: entries and packs. The mutator starts from real files and repairs
// digests most of the time, so that what lies behind the checksum is reached too.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <moegen/error.hpp>

#include "cache/bytes.hpp"
#include "cache/entry.hpp"
#include "cache/pack.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace moegen;
using namespace moegen::cache;

constexpr std::size_t kPackHeadBytes = 12 + 4 + 8, kPackRecordBytes = 32 + 8;

Entry seed_entry(const std::string& kernel) {
  const CacheKey key = make_key("cuda", "sm_90a", {"-O3"}, kernel);
  return {key.fields(),
          key.digest(),
          "nvrtc-13.0",
          kernel,
          "cuda",
          "sm_90a",
          1,
          96,
          {{kernel, 40, 0, 0, 0, 16}},
          "\x7f"
          "ELF payload"};
}

// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {}
  ~MemoryFile() { ::close(fd_); }
  void set(std::string_view bytes) const {
    if (::ftruncate(fd_, 0) != 0 ||
        ::pwrite(fd_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

std::string pack_bytes(const std::vector<Entry>& entries) {
  char folder[] = "/tmp/moegen-fuzz-XXXXXX";
  if (::mkdtemp(folder) == nullptr) std::abort();
  const std::filesystem::path path = std::filesystem::path(folder) / "seed";
  write_pack(path, entries);
  std::string bytes(std::filesystem::file_size(path), '\0');
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (::pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  ::close(fd);
  std::filesystem::remove_all(folder);
  return bytes;
}

// What decodes must encode to something that decodes to the same.
void try_entry(std::string_view bytes) {
  BadEntry bad;
  const auto entry = decode(bytes, bad);
  if (entry.has_value() != bad.reason.empty()) std::abort();
  if (!entry) return;
  const std::string again = encode(*entry);
  const auto second = decode(again, bad);
  if (!second || encode(*second) != again || entry->payload.empty()) std::abort();
}

void try_pack(const MemoryFile& file, std::string_view bytes) {
  file.set(bytes);
  try {
    const Pack pack = Pack::open(file.path());
    for (const std::string& key : pack.keys()) {
      BadEntry bad;
      const auto entry = pack.find(key, bad);
      if (entry.has_value() != bad.reason.empty()) std::abort();
      if (entry && entry->key != key) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cache || std::strlen(error.what()) <= file.path().size()) std::abort();
  }
}

void repair_entry(std::string& bytes) {
  if (bytes.size() < kDigestBytes) return;
  const std::size_t body = bytes.size() - kDigestBytes;
  bytes.replace(body, kDigestBytes, raw_digest(std::string_view(bytes).substr(0, body)));
}

void repair_pack(std::string& bytes) {
  if (bytes.size() < kPackHeadBytes) return;
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data() + 16, 8);
  const std::size_t body = kPackHeadBytes + static_cast<std::size_t>(count % 64) * kPackRecordBytes;
  if (bytes.size() < body + kDigestBytes) return;
  bytes.replace(body, kDigestBytes, raw_digest(std::string_view(bytes).substr(0, body)));
}

std::string seed_bytes(unsigned choice) {
  switch (choice % 4) {
    case 0: return encode(seed_entry("create_indices"));
    case 1: return encode(seed_entry("finalize"));
    case 2: return pack_bytes({seed_entry("a")});
    default: return pack_bytes({seed_entry("a"), seed_entry("b"), seed_entry("c")});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile file;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try_entry(bytes);
  try_pack(file, bytes);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  static const std::string kSeeds[] = {seed_bytes(0), seed_bytes(1), seed_bytes(2), seed_bytes(3)};
  if (size < 8 || seed % 16 == 0) {
    const std::string& fresh = kSeeds[(seed / 16) % 4];
    size = std::min(fresh.size(), max_size);
    std::memcpy(data, fresh.data(), size);
  }
  size = LLVMFuzzerMutate(data, size, max_size);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (seed % 8 != 1) (bytes.starts_with("moegen pack") ? repair_pack : repair_entry)(bytes);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
