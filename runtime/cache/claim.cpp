// SPDX-License-Identifier: Apache-2.0
#include "cache/claim.hpp"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace moegen::cache {
namespace {

// Waiting is polling: a blocking flock cannot be bounded without signals. A compile takes 25 ms and more.
constexpr std::chrono::microseconds kFirstPause{500}, kLongestPause{10'000};

}  // namespace

Claim Claim::acquire(FileSystem& fs, FolderHandle folder, const std::string& path,
                     std::chrono::steady_clock::time_point deadline) {
  Claim claim(fs, std::move(folder), path + std::string(kClaimSuffix));
  auto pause = kFirstPause;
  while (true) {
    const Attempt result = claim.attempt();
    if (result == Attempt::owned || result == Attempt::unavailable) return claim;
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  claim.timed_out_ = true;
  return claim;
}

Claim::Attempt Claim::attempt() {
  UniqueFd fd(fs_->open_at(folder_->get(), path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Attempt::unavailable;
  if (fs_->lock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK || errno == EINTR ? Attempt::busy : Attempt::unavailable;
  }
  const Attempt result = examine(fd.get());
  if (result == Attempt::owned) fd_ = std::move(fd);
  return result;
}

// The last owner deletes the file before it lets go, so the lock that we got may be on a file without a name.
Claim::Attempt Claim::examine(int fd) const {
  struct stat locked{}, named{};
  if (fs_->stat(fd, &locked) != 0) return Attempt::unavailable;
  if (fs_->stat_at(folder_->get(), path_.c_str(), &named) != 0) {
    return errno == ENOENT ? Attempt::stale : Attempt::unavailable;
  }
  return locked.st_ino == named.st_ino && locked.st_dev == named.st_dev ? Attempt::owned : Attempt::stale;
}

Claim::~Claim() {
  if (!fd_) return;
  fs_->unlink_at(folder_->get(), path_.c_str());
  fs_->lock(fd_.get(), LOCK_UN);  // closing is not enough if a child process inherited the descriptor
}

}  // namespace moegen::cache
