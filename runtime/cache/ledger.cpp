// SPDX-License-Identifier: Apache-2.0
// The file: 8 bytes of magic, the five totals as u64, XXH3-128 of all that.
#include "cache/ledger.hpp"

#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "cache/bytes.hpp"

namespace moegen::cache {
namespace {

constexpr std::string_view kMagic = "mgledg1\n";
constexpr std::size_t kBodyBytes = 8 + 5 * 8;
constexpr std::size_t kFileBytes = kBodyBytes + kDigestBytes;
constexpr std::chrono::milliseconds kPause{1};

std::string pack_totals(const Totals& totals) {
  std::string out(kMagic);
  for (std::int64_t value : {totals.bytes, totals.last_scan_s, totals.hits, totals.compiled, totals.corrupt}) {
    append_u64(out, static_cast<std::uint64_t>(value));
  }
  out += raw_digest(out);
  return out;
}

Totals unpack_totals(std::string_view bytes) {
  if (bytes.size() != kFileBytes || !bytes.starts_with(kMagic)) return {};
  if (raw_digest(bytes.substr(0, kBodyBytes)) != bytes.substr(kBodyBytes)) return {};
  ByteReader reader(bytes.substr(kMagic.size()));
  Totals totals;
  for (std::int64_t* value : {&totals.bytes, &totals.last_scan_s, &totals.hits, &totals.compiled, &totals.corrupt}) {
    *value = static_cast<std::int64_t>(*reader.u64());
  }
  return totals;
}

void add(Totals& totals, const Totals& delta) {
  totals.bytes += delta.bytes;
  totals.hits += delta.hits;
  totals.compiled += delta.compiled;
  totals.corrupt += delta.corrupt;
}

Totals difference(const Totals& after, const Totals& before) {
  return {after.bytes - before.bytes, 0, after.hits - before.hits, after.compiled - before.compiled,
          after.corrupt - before.corrupt};
}

enum class Lock { held, busy, unsupported };

Lock lock_within(FileSystem& fs, int fd, std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  while (fs.lock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Lock::unsupported;
    if (std::chrono::steady_clock::now() >= deadline) return Lock::busy;
    std::this_thread::sleep_for(kPause);
  }
  return Lock::held;
}

std::string ledger_path() { return fmt::format("{}/ledger", kVersionFolder); }

}  // namespace

Ledger::File Ledger::open_locked(int folder, std::chrono::milliseconds wait) {
  File file;
  file.fd = UniqueFd(
      fs_.open_at(folder, ledger_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  file.busy = file.fd && lock_within(fs_, file.fd.get(), wait) == Lock::busy;
  return file;
}

Totals Ledger::read_totals(int fd) {
  std::string bytes;
  if (read_exactly(fs_, fd, 0, kFileBytes, bytes)) return {};
  return unpack_totals(bytes);
}

void Ledger::write_totals(int fd, const Totals& totals) {
  const std::string bytes = pack_totals(totals);
  static_cast<void>(fs_.pwrite(fd, bytes.data(), bytes.size(), 0));  // a torn write reads as "never counted"
}

Totals Ledger::take_pending() noexcept {
  return {bytes_.exchange(0), 0, hits_.exchange(0), compiled_.exchange(0), corrupt_.exchange(0)};
}

void Ledger::keep_pending(const Totals& delta) noexcept {
  bytes_ += delta.bytes;
  hits_ += delta.hits;
  compiled_ += delta.compiled;
  corrupt_ += delta.corrupt;
}

void Ledger::update(int folder, std::chrono::milliseconds wait, const std::function<void(Totals&, bool)>& change) {
  const std::unique_lock lock(mutex_, wait);
  const File file = open_locked(folder, lock.owns_lock() ? wait : std::chrono::milliseconds(0));
  const Totals before = file.usable() ? read_totals(file.fd.get()) : Totals{};
  Totals after = before;
  add(after, take_pending());
  change(after, !file.busy);
  if (file.usable()) {
    write_totals(file.fd.get(), after);
  } else {
    keep_pending(difference(after, before));
  }
}

void Ledger::flush(int folder, std::chrono::milliseconds wait) {
  if (hits_ == 0 && compiled_ == 0 && corrupt_ == 0 && bytes_ == 0) return;
  const std::unique_lock lock(mutex_, wait);
  if (!lock.owns_lock()) return;
  const File file = open_locked(folder, wait);
  if (!file.usable()) return;
  Totals totals = read_totals(file.fd.get());
  add(totals, take_pending());
  write_totals(file.fd.get(), totals);
}

Totals Ledger::read(int folder) {
  Totals totals;
  const FileBytes file = read_file(fs_, folder, ledger_path(), kFileBytes);
  if (!file.error) totals = unpack_totals(file.bytes);
  add(totals, {bytes_, 0, hits_, compiled_, corrupt_});
  return totals;
}

}  // namespace moegen::cache
