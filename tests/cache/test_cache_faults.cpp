// SPDX-License-Identifier: Apache-2.0
// Every system call of the cache fails once, or the process dies there: the result is right, and the cache still works.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cache/support.hpp"

using namespace moegen;
using namespace moegen::cache;
using namespace moegen::cache::testing;

namespace {

enum class Fault { none, fail_once, fail_from_then_on, die };

// Does what is asked when call number `at` comes; all other calls are the machine's.
class FaultyFileSystem : public FastFileSystem {
 public:
  FaultyFileSystem(Fault fault, int at, int error) : fault_(fault), at_(at), error_(error) {}
  int calls() const { return calls_; }

  int open_at(int dir, const char* path, int flags, mode_t mode) override {
    return hit() ? -1 : FileSystem::open_at(dir, path, flags, mode);
  }
  ssize_t pread(int fd, void* buffer, std::size_t count, off_t offset) override {
    return hit() ? -1 : FileSystem::pread(fd, buffer, count, offset);
  }
  ssize_t pwrite(int fd, const void* buffer, std::size_t count, off_t offset) override {
    if (hit()) return -1;
    if (fault_ == Fault::die && calls_ + 1 == at_) count /= 2;  // dies with the file half written
    return FileSystem::pwrite(fd, buffer, count, offset);
  }
  int fsync(int) override { return hit() ? -1 : 0; }
  int close(int fd) override {
    const int result = FileSystem::close(fd);
    return hit() ? -1 : result;
  }
  int rename_at(int dir, const char* from, const char* to) override {
    return hit() ? -1 : FileSystem::rename_at(dir, from, to);
  }
  int unlink_at(int dir, const char* path) override { return hit() ? -1 : FileSystem::unlink_at(dir, path); }
  int make_dir_at(int dir, const char* path, mode_t mode) override {
    return hit() ? -1 : FileSystem::make_dir_at(dir, path, mode);
  }
  int stat(int fd, struct stat* out) override { return hit() ? -1 : FileSystem::stat(fd, out); }
  int stat_at(int dir, const char* path, struct stat* out) override {
    return hit() ? -1 : FileSystem::stat_at(dir, path, out);
  }
  int touch_at(int dir, const char* path) override { return hit() ? -1 : FileSystem::touch_at(dir, path); }
  int lock(int fd, int operation) override { return hit() ? -1 : FileSystem::lock(fd, operation); }

 private:
  bool hit() {
    ++calls_;
    if (fault_ == Fault::die && calls_ == at_) ::_exit(0);
    errno = error_;
    return (fault_ == Fault::fail_once && calls_ == at_) || (fault_ == Fault::fail_from_then_on && calls_ >= at_);
  }
  const Fault fault_;
  const int at_, error_;
  int calls_ = 0;
};

// A folder with a good entry, a bad one and an old one.
void prepare(const std::filesystem::path& directory) {
  LogRecord log;
  std::atomic<int> calls{0};
  Cache cache(options_for(directory, log));
  for (const char* name : {"good", "bad", "old"}) {
    cache.find_or_compile(stub_key(name), kCompiler, counted_compile(calls, name));
  }
  write_text(entry_path(directory, "bad"), "garbage");
  std::filesystem::last_write_time(entry_path(directory, "old"),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
}

// Everything that a cache does. The result is how many answers were wrong.
int use_everything(Options options) {
  int wrong = 0;
  std::atomic<int> calls{0};
  options.max_bytes = 2500;  // three entries and a half: the new ones evict
  options.claim_wait_s = 0.05;
  Cache cache(options);
  for (const char* name : {"good", "bad", "old", "new", "newer"}) {
    const Found found = cache.find_or_compile(stub_key(name), kCompiler, counted_compile(calls, name));
    wrong += !same(*found.entry, stub_entry(name));
  }
  if (const auto found = cache.find(stub_key("other"), "")) ++wrong;
  cache.stats();
  for (const auto& item : cache.list()) wrong += item.entry.has_value() != item.bad_reason.empty();
  cache.collect(1000);
  cache.problem();
  return wrong;
}

int count_calls() {
  const ScratchFolder scratch;
  prepare(scratch.path() / "cache");
  LogRecord log;
  Options options = options_for(scratch.path() / "cache", log);
  const auto counting = std::make_shared<FaultyFileSystem>(Fault::none, 0, 0);
  options.file_system = counting;
  CHECK(use_everything(options) == 0);
  CHECK(log.warnings().empty());
  return counting->calls();
}

// A process that comes later, with nothing that fails: no warning, right results, and they are stored.
void check_works_again(const std::filesystem::path& directory) {
  LogRecord log;
  std::atomic<int> calls{0};
  for (int run = 0; run < 2; ++run) {
    Options options = options_for(directory, log);
    options.claim_wait_s = 30;
    Cache cache(options);
    for (const char* name : {"good", "bad", "old", "new", "newer"}) {
      const Found found = cache.find_or_compile(stub_key(name), kCompiler, counted_compile(calls, name));
      REQUIRE(same(*found.entry, stub_entry(name)));
      if (run == 1) REQUIRE(found.status == BuildStatus::cached);
    }
  }
  REQUIRE(log.warnings().empty());
}

int count_temporaries(const std::filesystem::path& directory) {
  int count = 0;
  for (const auto& path : files_ending(directory, "")) count += path.filename().string().starts_with("tmp-");
  return count;
}

void run_with_fault(Fault fault, int at, int error) {
  CAPTURE(at);
  CAPTURE(std::strerror(error));
  const ScratchFolder scratch;
  const auto directory = scratch.path() / "cache";
  prepare(directory);
  LogRecord log;
  Options options = options_for(directory, log);
  options.file_system = std::make_shared<FaultyFileSystem>(fault, at, error);
  REQUIRE(use_everything(options) == 0);
  REQUIRE(log.warnings().size() <= 1);
  if (fault == Fault::fail_once) REQUIRE(count_temporaries(directory) == 0);
  check_works_again(directory);
}

}  // namespace

TEST_CASE("any system call may fail, with any error") {
  const int calls = count_calls();
  CHECK(calls > 100);
  for (const int error : {EIO, ENOSPC, EACCES, ESTALE, ENOENT, EINTR, EWOULDBLOCK}) {
    for (int at = 1; at <= calls; ++at) run_with_fault(Fault::fail_once, at, error);
  }
}

TEST_CASE("the disk may die at any moment") {
  const int calls = count_calls();
  for (const int error : {EIO, ENOSPC, ESTALE}) {
    for (int at = 1; at <= calls; at += 2) run_with_fault(Fault::fail_from_then_on, at, error);
  }
}

TEST_CASE("the process may die at any system call") {
  const int calls = count_calls();
  for (int at = 1; at <= calls; ++at) {
    CAPTURE(at);
    const ScratchFolder scratch;
    const auto directory = scratch.path() / "cache";
    prepare(directory);
    const pid_t child = start_child([&] {
      LogRecord log;
      Options options = options_for(directory, log);
      options.file_system = std::make_shared<FaultyFileSystem>(Fault::die, at, 0);
      use_everything(options);
      return 1;  // it was to die
    });
    REQUIRE(wait_for(child) == 0);
    for (const auto& path : files_ending(directory, ".moegen")) {
      if (path == entry_path(directory, "bad")) continue;
      BadEntry bad;
      REQUIRE(decode(read_text(path), bad).has_value());
    }
    check_works_again(directory);
  }
}

TEST_CASE("short reads and writes are no error") {
  class ShortFileSystem : public FastFileSystem {
   public:
    ssize_t pread(int fd, void* buffer, std::size_t count, off_t offset) override {
      return interrupted() ? -1 : FileSystem::pread(fd, buffer, std::min<std::size_t>(count, 7), offset);
    }
    ssize_t pwrite(int fd, const void* buffer, std::size_t count, off_t offset) override {
      return interrupted() ? -1 : FileSystem::pwrite(fd, buffer, std::min<std::size_t>(count, 5), offset);
    }

   private:
    bool interrupted() {
      errno = EINTR;
      return ++calls_ % 3 == 0;
    }
    int calls_ = 0;
  };
  const ScratchFolder scratch;
  LogRecord log;
  std::atomic<int> calls{0};
  for (int run = 0; run < 2; ++run) {
    Options options = options_for(scratch.path() / "cache", log);
    options.file_system = std::make_shared<ShortFileSystem>();
    Cache cache(options);
    const Found found = cache.find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a", 1000));
    CHECK(same(*found.entry, stub_entry("a", 1000)));
    CHECK(found.status == (run == 0 ? BuildStatus::compiled : BuildStatus::cached));
  }
  CHECK(log.size() == 0);
}

TEST_CASE("a full disk costs one warning, and no half-written file stays") {
  class FullFileSystem : public FastFileSystem {
   public:
    ssize_t pwrite(int fd, const void* buffer, std::size_t count, off_t offset) override {
      errno = ENOSPC;
      return offset >= 100 ? -1 : FileSystem::pwrite(fd, buffer, std::min<std::size_t>(count, 100), offset);
    }
  };
  const ScratchFolder scratch;
  LogRecord log;
  std::atomic<int> calls{0};
  Options options = options_for(scratch.path() / "cache", log);
  options.file_system = std::make_shared<FullFileSystem>();
  Cache cache(options);
  for (const char* name : {"a", "b", "c"}) {
    CHECK(
        same(*cache.find_or_compile(stub_key(name), kCompiler, counted_compile(calls, name)).entry, stub_entry(name)));
  }
  CHECK(log.warnings() ==
        std::vector<std::string>{
            fmt::format("cache folder '{}': cannot store an entry of {} bytes: No space left on device; kernels are "
                        "kept in memory only",
                        (scratch.path() / "cache").string(), encode(stub_entry("a")).size())});
  for (const auto& bucket : std::filesystem::directory_iterator(scratch.path() / "cache" / "v1")) {
    if (bucket.is_directory()) CHECK(std::filesystem::is_empty(bucket));
  }
}

TEST_CASE("an entry is durable before it gets its name, and its name after") {
  class RecordingFileSystem : public FileSystem {
   public:
    int open_at(int dir, const char* path, int flags, mode_t mode) override {
      const int fd = FileSystem::open_at(dir, path, flags, mode);
      if (std::strstr(path, "/tmp-") != nullptr) file_ = fd;
      return fd;
    }
    int fsync(int fd) override {
      steps += fd == file_ ? "sync file, " : "sync folder, ";
      return FileSystem::fsync(fd);
    }
    int rename_at(int dir, const char* from, const char* to) override {
      steps += "rename, ";
      file_ = -1;
      return FileSystem::rename_at(dir, from, to);
    }
    std::string steps;

   private:
    int file_ = -1;
  };
  const ScratchFolder scratch(ScratchFolder::Place::disk);
  LogRecord log;
  std::atomic<int> calls{0};
  const auto recording = std::make_shared<RecordingFileSystem>();
  Options options = options_for(scratch.path() / "cache", log);
  options.file_system = recording;
  Cache(options).find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a"));
  CHECK(recording->steps == "sync file, rename, sync folder, ");
  Cache(options).find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a"));
  CHECK(recording->steps == "sync file, rename, sync folder, ");  // a hit waits for no disk
}
