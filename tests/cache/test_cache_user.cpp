// SPDX-License-Identifier: Apache-2.0
// As a user without rights and without an entry in the password database: folders that are not theirs, not writable,
// not there. Starts as root and drops it; skipped otherwise.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <grp.h>
#include <unistd.h>

#include <cstdlib>

#include "cache/support.hpp"
#include "support/skip.hpp"

using namespace moegen;
using namespace moegen::cache;
using namespace moegen::cache::testing;
namespace stdfs = std::filesystem;

namespace {

constexpr uid_t kUser = 54321;

// A scratch folder that others may enter, on a machine where we are root.
struct Place {
  Place() {
    if (::geteuid() != 0) test::skip("the test of folders of other users starts as root");
    stdfs::permissions(scratch.path(), stdfs::perms(0755));
  }
  stdfs::path make(const std::string& name, int mode, uid_t owner) const {
    const stdfs::path path = scratch.path() / name;
    stdfs::create_directory(path);
    REQUIRE(::chown(path.c_str(), owner, owner) == 0);
    stdfs::permissions(path, stdfs::perms(mode));
    return path;
  }
  ScratchFolder scratch;
};

struct Outcome {
  int code = 0;
  std::string warnings;
};

// Runs `body` as kUser in a child; it says its result and the warnings through a file.
Outcome as_user(const Place& place, const std::function<int(LogRecord&)>& body) {
  const stdfs::path report = place.make("report", 0777, kUser) / "warnings";
  stdfs::remove(report);
  const int code = wait_for(start_child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kUser) != 0 || ::setuid(kUser) != 0) return 98;
    LogRecord log;
    const int result = body(log);
    std::string text;
    for (const std::string& warning : log.warnings()) text += warning + "\n";
    write_text(report, text);
    return result;
  }));
  return {code, read_text(report)};
}

// Builds a and b twice with one cache; 0 if every answer is right and nothing was compiled twice.
int build_two(Options options) {
  std::atomic<int> calls{0};
  Cache cache(std::move(options));
  for (const char* name : {"a", "b", "a", "b"}) {
    const Found found = cache.find_or_compile(stub_key(name), kCompiler, counted_compile(calls, name));
    if (!same(*found.entry, stub_entry(name))) return 1;
  }
  return calls > 2 ? 2 : 0;
}

// The status with which a new cache answers for `name`.
BuildStatus status_of(const stdfs::path& directory, LogRecord& log, const std::string& name) {
  std::atomic<int> calls{0};
  return Cache(options_for(directory, log))
      .find_or_compile(stub_key(name), kCompiler, counted_compile(calls, name))
      .status;
}

constexpr const char* kMine = "set MOEGEN_CACHE_DIR to a folder of your own; kernels are kept in memory only\n";

}  // namespace

TEST_CASE("a folder that belongs to someone else is neither read nor written") {
  const Place place;
  const stdfs::path directory = place.make("cache", 0755, 0);
  LogRecord log;
  CHECK(status_of(directory, log, "a") == BuildStatus::compiled);
  stdfs::permissions(only_entry(directory), stdfs::perms(0644));
  const Outcome outcome = as_user(place, [&](LogRecord& user_log) {
    if (status_of(directory, user_log, "a") != BuildStatus::compiled) return 3;
    return build_two(options_for(directory, *std::make_unique<LogRecord>()));
  });
  CHECK(outcome.code == 0);
  CHECK(outcome.warnings ==
        fmt::format("cache folder '{}' is not used: it belongs to user 0, not to user 54321; run chmod "
                    "go-w on your own folder or set MOEGEN_CACHE_DIR to one; kernels are kept in "
                    "memory only\n",
                    directory.string()));
  CHECK(files_ending(directory, ".moegen").size() == 1);
}

TEST_CASE("root does not trust the folder of a user") {
  const Place place;
  const stdfs::path directory = place.make("cache", 0700, kUser);
  LogRecord log;
  CHECK(build_two(options_for(directory, log)) == 0);
  CHECK(log.warnings().size() == 1);
  CHECK(stdfs::is_empty(directory));
}

TEST_CASE("an entry of another user in one's own folder is not used") {
  const Place place;
  const stdfs::path directory = place.make("cache", 0700, kUser);
  const auto build_a = [&](LogRecord& log) { return static_cast<int>(status_of(directory, log, "a")); };
  CHECK(as_user(place, build_a).code == static_cast<int>(BuildStatus::compiled));
  CHECK(as_user(place, build_a).code == static_cast<int>(BuildStatus::cached));
  REQUIRE(::chown(only_entry(directory).c_str(), 0, 0) == 0);
  stdfs::permissions(only_entry(directory), stdfs::perms(0644));
  CHECK(as_user(place, build_a).code == static_cast<int>(BuildStatus::compiled));
  CHECK(as_user(place, build_a).code == static_cast<int>(BuildStatus::cached));
}

TEST_CASE("a read-only folder of one's own is read, and not being able to write is one warning") {
  const Place place;
  const stdfs::path directory = place.make("cache", 0700, kUser);
  CHECK(as_user(place, [&](LogRecord& log) { return static_cast<int>(status_of(directory, log, "a")); }).code ==
        static_cast<int>(BuildStatus::compiled));
  for (const auto& item : stdfs::recursive_directory_iterator(directory)) {
    stdfs::permissions(item.path(), item.is_directory() ? stdfs::perms(0500) : stdfs::perms(0400));
  }
  stdfs::permissions(directory, stdfs::perms(0500));
  const Outcome outcome = as_user(place, [&](LogRecord& log) {
    if (status_of(directory, log, "a") != BuildStatus::cached) return 3;
    if (log.size() > 0) return 4;
    if (Cache(options_for(directory, log)).problem().find("cannot be written: Permission denied") ==
        std::string::npos) {
      return 5;
    }
    return build_two(options_for(directory, log));
  });
  CHECK(outcome.code == 0);
  CHECK(outcome.warnings ==
        fmt::format("cache folder '{}': cannot store an entry of {} bytes: Permission denied; kernels "
                    "are kept in memory only\n",
                    directory.string(), encode(stub_entry("b")).size()));
}

TEST_CASE("a folder that cannot be made or entered is one warning") {
  const Place place;
  const stdfs::path parent = place.make("parent", 0755, 0), closed = place.make("closed", 0700, 0);
  Outcome outcome = as_user(place, [&](LogRecord& log) { return build_two(options_for(parent / "x" / "cache", log)); });
  CHECK(outcome.code == 0);
  CHECK(outcome.warnings == fmt::format("cache folder '{}' is not used: cannot create it: Permission denied; {}",
                                        (parent / "x" / "cache").string(), kMine));
  outcome = as_user(place, [&](LogRecord& log) { return build_two(options_for(closed / "cache", log)); });
  CHECK(outcome.code == 0);
  CHECK(outcome.warnings == fmt::format("cache folder '{}' is not used: cannot open it: Permission denied; {}",
                                        (closed / "cache").string(), kMine));
}

TEST_CASE("no HOME, and HOME=/ that cannot be written, as a user whom the password database does not know") {
  const Place place;
  const auto build_default = [](LogRecord& log) { return build_two(options_for(default_directory(), log)); };
  const auto with_home = [&](const char* home) {
    return as_user(place, [&, home](LogRecord& log) {
      ::unsetenv("MOEGEN_CACHE_DIR");
      ::unsetenv("XDG_CACHE_HOME");
      ::unsetenv("HOME");
      if (home != nullptr) ::setenv("HOME", home, 1);
      return build_default(log);
    });
  };
  Outcome outcome = with_home(nullptr);
  CHECK(outcome.code == 0);
  CHECK(outcome.warnings ==
        "no cache folder: none of MOEGEN_CACHE_DIR, XDG_CACHE_HOME and HOME names one; kernels are kept in memory "
        "only\n");
  outcome = with_home("/");
  CHECK(outcome.code == 0);
  CHECK(outcome.warnings ==
        fmt::format("cache folder '/.cache/moegen' is not used: cannot create it: Permission denied; {}", kMine));
}

TEST_CASE("a link that someone else put in the folder's place leads nowhere") {
  const Place place;
  const stdfs::path target = place.make("target", 0755, 0), link = place.scratch.path() / "link";
  stdfs::create_directory_symlink(target, link);
  const Outcome outcome = as_user(place, [&](LogRecord& log) { return build_two(options_for(link, log)); });
  CHECK(outcome.code == 0);
  CHECK(outcome.warnings.find("it belongs to user 0, not to user 54321") != std::string::npos);
  CHECK(stdfs::is_empty(target));
}
