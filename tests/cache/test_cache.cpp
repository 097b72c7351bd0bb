// SPDX-License-Identifier: Apache-2.0
// One process: the order of lookup, what is stored, what is repaired. See test_cache_processes.cpp for many.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <moegen/error.hpp>

#include "cache/pack.hpp"
#include "cache/support.hpp"

using namespace moegen;
using namespace moegen::cache;
using namespace moegen::cache::testing;
namespace stdfs = std::filesystem;

namespace {

// A cache in its own scratch folder, and the number of compiles it asked for.
struct Bench {
  ScratchFolder scratch;
  stdfs::path directory = scratch.path() / "cache";
  LogRecord log;
  std::atomic<int> compiles{0};

  Options options() { return options_for(directory, log); }
  Found build(Cache& cache, const std::string& name, std::size_t payload_bytes = 256) {
    return cache.find_or_compile(stub_key(name), kCompiler, counted_compile(compiles, name, payload_bytes));
  }
  // Built by a new cache object, as a new process would.
  Found build_anew(const std::string& name) {
    Cache cache(options());
    return build(cache, name);
  }
};

mode_t mode_of(const stdfs::path& path) {
  struct stat status{};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void set_age(const stdfs::path& path, std::chrono::hours age) {
  stdfs::last_write_time(path, stdfs::file_time_type::clock::now() - age);
}

std::chrono::minutes age_of(const stdfs::path& path) {
  return std::chrono::duration_cast<std::chrono::minutes>(stdfs::file_time_type::clock::now() -
                                                          stdfs::last_write_time(path));
}

// Sets or removes an environment variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("compiled once, then from memory, then from the folder") {
  Bench bench;
  {
    Cache cache(bench.options());
    CHECK_FALSE(cache.find(stub_key("a"), kCompiler).has_value());
    CHECK_FALSE(stdfs::exists(bench.directory));  // a lookup makes no folder
    const Found first = bench.build(cache, "a");
    CHECK(first.status == BuildStatus::compiled);
    CHECK(same(*first.entry, stub_entry("a")));
    CHECK(bench.build(cache, "a").status == BuildStatus::memory);
    CHECK(cache.find(stub_key("a"), kCompiler)->entry == first.entry);
  }
  Cache cache(bench.options());
  const auto found = cache.find(stub_key("a"), kCompiler);
  REQUIRE(found.has_value());
  CHECK(found->status == BuildStatus::cached);
  CHECK(same(*found->entry, stub_entry("a")));
  CHECK(cache.find(stub_key("a"), kCompiler)->status == BuildStatus::memory);
  CHECK(bench.compiles == 1);
  CHECK(bench.log.size() == 0);
}

TEST_CASE("the folder is private, tagged for backup programs, and holds one file for each entry") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path entry = only_entry(bench.directory);
  const std::string digest = stub_key("a").digest();
  CHECK(entry == bench.directory / "v1" / digest.substr(0, 2) / (digest + "-nvrtc-13.0.moegen"));
  CHECK(mode_of(bench.directory) == 0700);
  CHECK(mode_of(entry.parent_path()) == 0700);
  CHECK(mode_of(entry) == 0600);
  CHECK(read_text(bench.directory / "CACHEDIR.TAG").starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"));
  CHECK(files_ending(bench.directory, ".claim").empty());
  CHECK(stdfs::directory_iterator(entry.parent_path()) != stdfs::directory_iterator());
  CHECK(std::distance(stdfs::directory_iterator(entry.parent_path()), stdfs::directory_iterator()) == 1);
}

TEST_CASE("two compiler versions live side by side; no compiler takes any") {
  Bench bench;
  const CacheKey key = stub_key("a");
  for (const std::string compiler : {"nvrtc-12.9", "nvrtc-13.0"}) {
    Cache cache(bench.options());
    const auto found = cache.find_or_compile(key, compiler, [&] { return stub_entry("a", 300, compiler); });
    CHECK(found.status == BuildStatus::compiled);
  }
  CHECK(files_ending(bench.directory, ".moegen").size() == 2);
  for (const std::string compiler : {"nvrtc-12.9", "nvrtc-13.0"}) {
    Cache cache(bench.options());
    CHECK(cache.find(key, compiler)->entry->compiler == compiler);
  }
  Cache cache(bench.options());
  CHECK_FALSE(cache.find(key, "nvrtc-13.1").has_value());
  CHECK(cache.find(key, "")->entry->compiler == "nvrtc-13.0");
  CHECK(cache.find(key, "")->status == BuildStatus::memory);
  CHECK_FALSE(cache.find(stub_key("b"), "").has_value());
}

TEST_CASE("a compiler's name never leaves the folder") {
  Bench bench;
  const std::string compiler = "../../x y";
  Cache cache(bench.options());
  cache.find_or_compile(stub_key("a"), compiler, [&] { return stub_entry("a", 300, compiler); });
  CHECK(only_entry(bench.directory).filename() == stub_key("a").digest() + "-..%2F..%2Fx%20y.moegen");
}

TEST_CASE("packs come before the folder, and their compiler does not matter") {
  Bench bench;
  const stdfs::path pack = bench.scratch.path() / "x.moegen-pack";
  write_pack(pack, {stub_entry("a", 256, "nvrtc-12.9")});
  bench.build_anew("a");
  Options options = bench.options();
  options.packs = {pack};
  Cache cache(options);
  const auto found = cache.find(stub_key("a"), kCompiler);
  REQUIRE(found.has_value());
  CHECK(found->status == BuildStatus::pack);
  CHECK(found->entry->compiler == "nvrtc-12.9");
  CHECK(cache.find(stub_key("a"), kCompiler)->status == BuildStatus::memory);
  CHECK(cache.find(stub_key("a"), "")->status == BuildStatus::memory);
  CHECK(cache.stats().hits == 0);
}

TEST_CASE("a pack that cannot be used is one warning each, and the rest works") {
  Bench bench;
  const stdfs::path good = bench.scratch.path() / "good", bad = bench.scratch.path() / "bad";
  write_pack(good, {stub_entry("a"), stub_entry("b")});
  const std::string last = stub_key("a").digest() < stub_key("b").digest() ? "b" : "a";
  write_text(bad, "garbage");
  std::string damaged = read_text(good);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  write_text(good, damaged);
  Options options = bench.options();
  options.packs = {bench.scratch.path() / "none", bad, good};
  Cache cache(options);
  for (const char* name : {"a", "b"}) CHECK(same(*bench.build(cache, name).entry, stub_entry(name)));
  CHECK(bench.compiles == 1);
  CHECK_FALSE(cache.find(stub_key(last), "another").has_value());  // found damaged again: no second warning
  const std::string folder = bench.scratch.path().string() + "/";
  CHECK(bench.log.warnings() ==
        std::vector<std::string>{
            "pack is not used: " + folder + "none: cannot open: No such file or directory",
            "pack is not used: " + folder + "bad: not a moegen pack; 'moegen build -o' writes one",
            "pack is damaged: " + folder + "good: entry " + stub_key(last).digest() + ": digest mismatch"});
}

TEST_CASE("an exception from compile leaves nothing, and the next one compiles") {
  Bench bench;
  Cache cache(bench.options());
  const auto fail = []() -> Entry { throw CompileError("nvrtc says no", "src", "log"); };
  CHECK_THROWS_WITH_AS(cache.find_or_compile(stub_key("a"), kCompiler, fail), "nvrtc says no", CompileError);
  CHECK(files_ending(bench.directory, ".moegen").empty());
  CHECK(files_ending(bench.directory, ".claim").empty());
  CHECK_FALSE(cache.find(stub_key("a"), kCompiler).has_value());
  CHECK(bench.build(cache, "a").status == BuildStatus::compiled);
  CHECK(bench.log.size() == 0);
}

TEST_CASE("a compile that returns something else than promised is our bug, and is not stored") {
  Bench bench;
  Cache cache(bench.options());
  const auto expect = [&](Entry entry, const char* message) {
    CHECK_THROWS_WITH_AS(cache.find_or_compile(stub_key("a"), kCompiler, [&] { return entry; }), message, Error);
    CHECK(files_ending(bench.directory, ".moegen").empty());
  };
  expect(stub_entry("b"), "the compile of kernel 'b' returned an entry for another key");
  expect(stub_entry("a", 256, "clang-19"),
         "the compile of kernel 'a' returned an entry of compiler 'clang-19', not 'nvrtc-13.0'");
  Entry empty = stub_entry("a");
  empty.payload.clear();
  expect(empty, "the compile of kernel 'a' returned a payload that is not an ELF file");
  empty.payload = ".version 8.0";
  expect(empty, "the compile of kernel 'a' returned a payload that is not an ELF file");
}

TEST_CASE("every offset of an entry flipped, on disk: detected, set aside, rebuilt") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path path = only_entry(bench.directory);
  const std::string good = read_text(path);
  REQUIRE(good.size() > 700);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 8)));
    write_text(path, bytes);
    const Found found = bench.build_anew("a");
    REQUIRE(found.status == BuildStatus::compiled);
    REQUIRE(same(*found.entry, stub_entry("a")));
    REQUIRE(read_text(path) == good);
  }
  CHECK(static_cast<std::size_t>(bench.compiles) == 1 + good.size());
  CHECK(bench.log.warnings().empty());
  CHECK(files_ending(bench.directory, ".bad").size() == 1);
  Cache cache(bench.options());
  CHECK(cache.stats().corrupt == good.size());
  CHECK(cache.stats().compiled == 1 + good.size());
}

TEST_CASE("an entry cut at every length, on disk: detected, set aside, rebuilt") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path path = only_entry(bench.directory);
  const std::string good = read_text(path);
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_text(path, good.substr(0, length));
    REQUIRE(bench.build_anew("a").status == BuildStatus::compiled);
    REQUIRE(read_text(path) == good);
  }
  Cache cache(bench.options());
  CHECK(cache.stats().corrupt == good.size());
  CHECK(cache.find(stub_key("a"), kCompiler)->status == BuildStatus::cached);
}

TEST_CASE("an entry under another's name is refused") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path a = only_entry(bench.directory);
  bench.build_anew("b");
  const stdfs::path b = entry_path(bench.directory, "b");
  const std::string b_bytes = read_text(b);
  write_text(b, read_text(a));
  CHECK(same(*bench.build_anew("b").entry, stub_entry("b")));
  CHECK(read_text(b) == b_bytes);
  CHECK(bench.compiles == 3);
}

TEST_CASE("an entry that another user could have written is refused") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path path = only_entry(bench.directory);
  stdfs::permissions(path, stdfs::perms(0666));
  CHECK(bench.build_anew("a").status == BuildStatus::compiled);
  CHECK(mode_of(path) == 0600);
}

TEST_CASE("a link, a folder or a pipe in place of an entry is set aside and rebuilt") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path path = only_entry(bench.directory);
  const stdfs::path target = bench.scratch.path() / "target";
  stdfs::rename(path, target);
  const std::string good = read_text(target);

  stdfs::create_symlink(target, path);
  CHECK(bench.build_anew("a").status == BuildStatus::compiled);
  CHECK(stdfs::is_regular_file(stdfs::symlink_status(path)));
  CHECK(read_text(target) == good);

  stdfs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(bench.build_anew("a").status == BuildStatus::compiled);

  stdfs::remove(path);
  stdfs::remove(files_ending(bench.directory, ".bad").front());
  stdfs::create_directory(path);
  CHECK(bench.build_anew("a").status == BuildStatus::compiled);
  CHECK(read_text(path) == good);
  CHECK(bench.log.warnings().empty());
}

TEST_CASE("an entry of another format version is set aside and rebuilt, without a warning") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path path = only_entry(bench.directory);
  std::string bytes = read_text(path);
  bytes[13] = 2;
  write_text(path, bytes);
  CHECK(bench.build_anew("a").status == BuildStatus::compiled);
  CHECK(bench.log.warnings().empty());
}

TEST_CASE("a folder of another version is left alone") {
  Bench bench;
  const stdfs::path other = bench.directory / "v2" / "ab" / "x.moegen";
  stdfs::create_directories(other.parent_path());
  stdfs::permissions(bench.directory, stdfs::perms(0700));
  write_text(other, "from the future");
  bench.build_anew("a");
  Cache(bench.options()).collect(0);
  CHECK(read_text(other) == "from the future");
  CHECK(bench.log.warnings().empty());
}

TEST_CASE("the folder deleted underneath is made again") {
  Bench bench;
  Cache cache(bench.options());
  bench.build(cache, "a");
  stdfs::remove_all(bench.directory);
  CHECK(bench.build(cache, "b").status == BuildStatus::compiled);
  CHECK(only_entry(bench.directory).string().find(stub_key("b").digest()) != std::string::npos);
  stdfs::remove_all(bench.directory / "v1");
  CHECK(bench.build(cache, "c").status == BuildStatus::compiled);
  CHECK(files_ending(bench.directory, ".moegen").size() == 1);
  CHECK(bench.build(cache, "a").status == BuildStatus::memory);
  CHECK(bench.log.warnings().empty());
}

TEST_CASE("no folder: memory only, one warning, and none before something is compiled") {
  Bench bench;
  bench.directory.clear();
  Cache cache(bench.options());
  CHECK_FALSE(cache.find(stub_key("a"), kCompiler).has_value());
  CHECK(bench.log.size() == 0);
  CHECK(bench.build(cache, "a").status == BuildStatus::compiled);
  CHECK(bench.build(cache, "b").status == BuildStatus::compiled);
  CHECK(bench.build(cache, "a").status == BuildStatus::memory);
  CHECK(bench.log.warnings() ==
        std::vector<std::string>{"no cache folder: none of MOEGEN_CACHE_DIR, XDG_CACHE_HOME and "
                                 "HOME names one; kernels are kept in memory only"});
  CHECK(cache.stats().entries == 0);
  CHECK(cache.list().empty());
  CHECK(cache.collect(0) == 0);
  CHECK(cache.problem().empty());
}

TEST_CASE("a file where the folder should be: memory only, one warning") {
  Bench bench;
  write_text(bench.directory, "");
  Cache cache(bench.options());
  for (const char* name : {"a", "b"}) CHECK(bench.build(cache, name).status == BuildStatus::compiled);
  CHECK(bench.log.warnings() == std::vector<std::string>{fmt::format(
                                    "cache folder '{}' is not used: cannot open it: Not a directory; set "
                                    "MOEGEN_CACHE_DIR to a folder of your own; kernels are kept in memory only",
                                    bench.directory.string())});
}

TEST_CASE("a folder that others can write to is refused") {
  for (const int mode : {0770, 0702, 0777}) {
    Bench bench;
    bench.build_anew("a");
    stdfs::permissions(bench.directory, stdfs::perms(mode));
    Cache cache(bench.options());
    CHECK(bench.build(cache, "a").status == BuildStatus::compiled);
    CHECK(bench.build(cache, "b").status == BuildStatus::compiled);
    CHECK(files_ending(bench.directory, ".moegen").size() == 1);
    const std::string fact = fmt::format(
        "cache folder '{}' is not used: others can write to it (mode {:04o}); run chmod "
        "go-w on your own folder or set MOEGEN_CACHE_DIR to one",
        bench.directory.string(), mode);
    CHECK(cache.problem() == fact);
    CHECK(bench.log.warnings() == std::vector<std::string>{fact + "; kernels are kept in memory only"});
    stdfs::permissions(bench.directory, stdfs::perms(0700));
    CHECK(bench.build(cache, "c").status == BuildStatus::compiled);
    CHECK(files_ending(bench.directory, ".moegen").size() == 2);  // repaired while running
  }
}

TEST_CASE("a folder behind a link is the user's choice; a link to nowhere is a warning") {
  Bench bench;
  const stdfs::path real = bench.scratch.path() / "real";
  stdfs::create_directory(real);
  stdfs::permissions(real, stdfs::perms(0700));
  stdfs::create_directory_symlink(real, bench.directory);
  bench.build_anew("a");
  CHECK(files_ending(real, ".moegen").size() == 1);
  stdfs::remove_all(real);
  CHECK(bench.build_anew("a").status == BuildStatus::compiled);
  CHECK(bench.log.warnings().size() == 1);
}

TEST_CASE("a hit renews a stamp that is older than an hour, and no other") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path path = only_entry(bench.directory);
  set_age(path, std::chrono::hours(100));
  CHECK(bench.build_anew("a").status == BuildStatus::cached);
  CHECK(age_of(path) < std::chrono::minutes(5));
  stdfs::last_write_time(path, stdfs::file_time_type::clock::now() - std::chrono::minutes(50));
  CHECK(bench.build_anew("a").status == BuildStatus::cached);
  CHECK(age_of(path) >= std::chrono::minutes(50));
}

TEST_CASE("the size cap holds after every store, and what was used last stays") {
  Bench bench;
  const std::size_t entry_bytes = encode(stub_entry("k000", 2000)).size();
  Options options = bench.options();
  options.max_bytes = 10 * entry_bytes;
  for (int i = 0; i < 60; ++i) {
    Cache cache(options);
    bench.build(cache, fmt::format("k{:03}", i), 2000);
    const Stats stats = cache.stats();
    REQUIRE(stats.bytes <= options.max_bytes);
    REQUIRE(stats.entries >= std::min(i + 1, 8));
    for (const auto& path : files_ending(bench.directory, ".moegen")) set_age(path, std::chrono::hours(60 - i));
    set_age(entry_path(bench.directory, "k000"), std::chrono::hours(0));
  }
  CHECK(stdfs::exists(entry_path(bench.directory, "k059")));
  CHECK_FALSE(stdfs::exists(entry_path(bench.directory, "k001")));
}

TEST_CASE("an entry larger than the cap is not stored and evicts nothing") {
  Bench bench;
  Options options = bench.options();
  options.max_bytes = 3000;
  Cache cache(options);
  bench.build(cache, "small");
  CHECK(bench.build(cache, "large", 4000).status == BuildStatus::compiled);
  CHECK(bench.build(cache, "large", 4000).status == BuildStatus::memory);
  CHECK(cache.stats().entries == 1);
  REQUIRE(bench.log.warnings().size() == 1);
  CHECK(bench.log.warnings()[0].find("File too large") != std::string::npos);
}

TEST_CASE("stats count what the folder did, over all processes") {
  Bench bench;
  for (int i = 0; i < 5; ++i) bench.build_anew("a");
  bench.build_anew("b");
  Cache cache(bench.options());
  const Stats stats = cache.stats();
  CHECK(stats.entries == 2);
  CHECK(stats.bytes == encode(stub_entry("a")).size() + encode(stub_entry("b")).size());
  CHECK(stats.hits == 4);
  CHECK(stats.compiled == 2);
  CHECK(stats.corrupt == 0);
}

TEST_CASE("list verifies every entry and shows what was set aside") {
  Bench bench;
  for (const char* name : {"a", "b", "c"}) bench.build_anew(name);
  auto paths = files_ending(bench.directory, ".moegen");
  const auto flip = [](const stdfs::path& path) {
    std::string bytes = read_text(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text(path, bytes);
  };
  flip(paths[0]);
  stdfs::path aside = paths[1];
  flip(paths[1]);
  stdfs::rename(paths[1], aside.replace_extension(".bad"));
  write_text(paths[2].parent_path() / "tmp-0123", "half");
  set_age(paths[2], std::chrono::hours(0));
  Cache cache(bench.options());
  const auto listed = cache.list();
  REQUIRE(listed.size() == 3);
  int good = 0, bad = 0, set_aside = 0;
  for (const auto& item : listed) {
    CHECK(item.bytes == stdfs::file_size(item.path));
    CHECK(item.last_used.size() == 20);
    CHECK(item.last_used.back() == 'Z');
    CHECK(item.entry.has_value() == item.bad_reason.empty());
    good += item.entry.has_value();
    set_aside += item.set_aside;
    bad += item.bad_reason == "digest mismatch" && !item.set_aside;
  }
  CHECK(good == 1);
  CHECK(bad == 1);
  CHECK(set_aside == 1);
}

TEST_CASE("collect deletes what was used longest ago, old temporaries and what was set aside") {
  Bench bench;
  for (const char* name : {"a", "b", "c"}) bench.build_anew(name);
  const auto paths = files_ending(bench.directory, ".moegen");
  set_age(paths[1], std::chrono::hours(9));
  const stdfs::path bucket = paths[0].parent_path();
  write_text(bucket / "tmp-old", "12345");
  set_age(bucket / "tmp-old", std::chrono::hours(2));
  write_text(bucket / "tmp-new", "12345");
  write_text(bucket / "x.bad", "123");
  Cache cache(bench.options());
  CHECK(cache.collect(std::uint64_t{1} << 30) == 8);
  CHECK_FALSE(stdfs::exists(bucket / "tmp-old"));
  CHECK(stdfs::exists(bucket / "tmp-new"));
  const std::uint64_t entry_bytes = stdfs::file_size(paths[1]);
  CHECK(cache.collect(stdfs::file_size(paths[0]) + stdfs::file_size(paths[2])) == entry_bytes);
  CHECK_FALSE(stdfs::exists(paths[1]));
  CHECK(cache.collect(0) > 0);
  CHECK(cache.stats().entries == 0);
}

TEST_CASE("what crashes left behind goes at a store, at most a day later") {
  Bench bench;
  bench.build_anew("a");
  const stdfs::path bucket = only_entry(bench.directory).parent_path();
  write_text(bucket / "tmp-old", "12345");
  set_age(bucket / "tmp-old", std::chrono::hours(2));
  bench.build_anew("b");
  CHECK(stdfs::exists(bucket / "tmp-old"));
  stdfs::remove(bench.directory / "v1" / "ledger");  // as if the last scan were long ago
  bench.build_anew("c");
  CHECK_FALSE(stdfs::exists(bucket / "tmp-old"));
}

TEST_CASE("64 threads that ask for one key get one compile; the other status is memory") {
  Bench bench;
  Cache cache(bench.options());
  std::atomic<int> compiled{0}, others{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 64; ++i) {
      threads.emplace_back([&] {
        const Found found = cache.find_or_compile(stub_key("a"), kCompiler, [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          return counted_compile(bench.compiles, "a")();
        });
        (found.status == BuildStatus::compiled ? compiled : others) += 1;
      });
    }
  }
  CHECK(bench.compiles == 1);
  CHECK(compiled == 1);
  CHECK(others == 63);
}

TEST_CASE("an exception from compile reaches every waiter") {
  Bench bench;
  Cache cache(bench.options());
  std::atomic<int> calls{0}, caught{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        try {
          cache.find_or_compile(stub_key("a"), kCompiler, [&]() -> Entry {
            ++calls;
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            throw std::runtime_error("no");
          });
        } catch (const std::runtime_error& error) {
          caught += std::string(error.what()) == "no";
        }
      });
    }
  }
  CHECK(caught == 16);
  CHECK(calls >= 1);
  CHECK(calls < 16);
  CHECK(files_ending(bench.directory, ".claim").empty());
}

TEST_CASE("threads on many keys, some corrupt, all get the right entry") {
  Bench bench;
  for (int i = 0; i < 20; ++i) bench.build_anew(fmt::format("k{}", i));
  const auto paths = files_ending(bench.directory, ".moegen");
  for (std::size_t i = 0; i < paths.size(); i += 3) write_text(paths[i], "bad");
  Cache cache(bench.options());
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          const std::string name = fmt::format("k{}", (i * 7 + t) % 40);
          wrong += !same(*bench.build(cache, name).entry, stub_entry(name));
          if (i % 50 == t) cache.stats();
          if (i % 90 == t) cache.list();
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(bench.compiles == 20 + 7 + 20);
}

TEST_CASE("the directory comes from the environment") {
  const Variable no_dir("MOEGEN_CACHE_DIR", nullptr), no_xdg("XDG_CACHE_HOME", nullptr), home("HOME", "/home/x");
  CHECK(default_directory() == "/home/x/.cache/moegen");
  {
    const Variable xdg("XDG_CACHE_HOME", "/var/x");
    CHECK(default_directory() == "/var/x/moegen");
    const Variable dir("MOEGEN_CACHE_DIR", "/mine");
    CHECK(default_directory() == "/mine");
    const Variable empty_dir("MOEGEN_CACHE_DIR", "");
    CHECK(default_directory() == "/var/x/moegen");
    const Variable relative("XDG_CACHE_HOME", "relative");
    CHECK(default_directory() == "/home/x/.cache/moegen");
  }
  const Variable no_home("HOME", nullptr);
  CHECK(default_directory().empty());
  const Variable empty_home("HOME", "");
  CHECK(default_directory().empty());
}

TEST_CASE("a relative directory stays where it was when the cache was made") {
  Bench bench;
  const stdfs::path old = stdfs::current_path();
  stdfs::current_path(bench.scratch.path());
  Options options = bench.options();
  options.directory = "relative";
  Cache cache(options);
  stdfs::current_path("/");
  bench.build(cache, "a");
  stdfs::current_path(old);
  CHECK(files_ending(bench.scratch.path() / "relative", ".moegen").size() == 1);
}

namespace {

// A sanitizer or a debug build says nothing about time.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
constexpr bool kTimesCount = true;
#else
constexpr bool kTimesCount = false;
#endif

// The best of many short rounds, in ns for each call: other work on the machine only ever adds.
double best_ns(int calls, const std::function<void()>& call) {
  double best = 1e18;
  for (int round = 0; round < 50; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / calls);
  }
  return best;
}

}  // namespace

TEST_CASE("find takes less than 300 ns from memory and less than 1 ms from the folder") {
  Bench bench;
  Cache cache(bench.options());
  for (int i = 0; i < 100; ++i) bench.build(cache, fmt::format("k{}", i), 50'000);
  const CacheKey key = stub_key("k50");
  int missed = 0;
  const double memory_ns = best_ns(2000, [&] { missed += !cache.find(key, kCompiler).has_value(); });
  const double folder_ns = best_ns(3, [&] { missed += !Cache(bench.options()).find(key, kCompiler).has_value(); });
  CHECK(missed == 0);
  MESSAGE("find: ", memory_ns, " ns from memory, ", folder_ns / 1000, " us for 50 kB from the folder");
  if (kTimesCount) CHECK(memory_ns < 300);
  if (kTimesCount) CHECK(folder_ns < 1e6);
}
