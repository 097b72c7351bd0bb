// SPDX-License-Identifier: Apache-2.0
// Real full and read-only file systems: small tmpfs mounts. Skipped where mounting is not permitted.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>

#include "cache/support.hpp"
#include "support/skip.hpp"

using namespace moegen;
using namespace moegen::cache;
using namespace moegen::cache::testing;
namespace stdfs = std::filesystem;

namespace {

// A tmpfs with these options for as long as it lives.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& options) {
    if (::mount("none", scratch_.path().c_str(), "tmpfs", MS_NOSUID | MS_NODEV, (options + ",mode=0700").c_str()) !=
        0) {
      test::skip(fmt::format("mounting a tmpfs is not permitted here: {}", std::strerror(errno)));
    }
  }
  ~SmallDisk() { ::umount(scratch_.path().c_str()); }
  void make_read_only() const { REQUIRE(::mount("none", path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0); }
  const stdfs::path& path() const { return scratch_.path(); }

 private:
  ScratchFolder scratch_;
};

Options real_options(const stdfs::path& directory, LogRecord& log) {
  Options options = options_for(directory, log);
  options.file_system = nullptr;
  return options;
}

// Builds entries of 6 KiB until the disk has long been full. All answers are right.
void overfill(Cache& cache) {
  for (int i = 0; i < 100; ++i) {
    const std::string name = fmt::format("k{}", i);
    const Found found = cache.find_or_compile(stub_key(name), kCompiler, [&] { return stub_entry(name, 6000); });
    REQUIRE(same(*found.entry, stub_entry(name, 6000)));
    REQUIRE(found.status == BuildStatus::compiled);
  }
}

}  // namespace

TEST_CASE("a full disk: right results, one warning, whole entries only, and it works again with room") {
  for (const char* limit : {"size=64k", "size=256k", "size=1m,nr_inodes=12"}) {
    CAPTURE(limit);
    const SmallDisk disk(limit);
    const stdfs::path directory = disk.path() / "cache";
    LogRecord log;
    {
      Cache cache(real_options(directory, log));
      overfill(cache);
    }
    REQUIRE(log.warnings().size() == 1);
    CHECK(log.warnings()[0].find("No space left on device; kernels are kept in memory only") != std::string::npos);
    const auto entries = files_ending(directory, ".moegen");
    CHECK(entries.size() >= 2);
    CHECK(entries.size() < 100);
    for (const auto& path : entries) {
      BadEntry bad;
      CHECK(decode(read_text(path), bad).has_value());
      CHECK_FALSE(path.filename().string().starts_with("tmp-"));
    }
    Cache cache(real_options(directory, log));
    CHECK(cache.collect(0) > 0);
    const Found found = cache.find_or_compile(stub_key("k99"), kCompiler, [&] { return stub_entry("k99", 6000); });
    CHECK(found.status == BuildStatus::compiled);
    CHECK(Cache(real_options(directory, log)).find(stub_key("k99"), kCompiler).has_value());
    CHECK(log.warnings().size() == 1);
  }
}

TEST_CASE("a cap below the disk's size never fills it") {
  const SmallDisk disk("size=256k");
  LogRecord log;
  Options options = real_options(disk.path() / "cache", log);
  options.max_bytes = 100'000;
  Cache cache(options);
  overfill(cache);
  CHECK(log.warnings().empty());
  CHECK(cache.stats().bytes <= 100'000);
  CHECK(cache.stats().entries >= 10);
}

TEST_CASE("a file system mounted read-only is read, and one warning says that nothing is stored") {
  const SmallDisk disk("size=1m");
  const stdfs::path directory = disk.path() / "cache";
  LogRecord log;
  std::atomic<int> calls{0};
  Cache(real_options(directory, log)).find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a"));
  disk.make_read_only();
  Cache cache(real_options(directory, log));
  CHECK(cache.find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a")).status == BuildStatus::cached);
  for (const char* name : {"b", "c"}) {
    CHECK(cache.find_or_compile(stub_key(name), kCompiler, counted_compile(calls, name)).status ==
          BuildStatus::compiled);
  }
  CHECK(log.warnings() ==
        std::vector<std::string>{
            fmt::format("cache folder '{}': cannot store an entry of {} bytes: Read-only file system; kernels are "
                        "kept in memory only",
                        directory.string(), encode(stub_entry("b")).size())});
  CHECK(cache.problem() ==
        fmt::format("cache folder '{}' cannot be written: Read-only file system", directory.string()));
}
