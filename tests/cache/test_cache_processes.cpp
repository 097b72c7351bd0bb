// SPDX-License-Identifier: Apache-2.0
// Many processes on one real folder: one compile a key, deaths at any moment, slow and dead owners, the size cap.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "cache/claim.hpp"
#include "cache/support.hpp"

using namespace moegen;
using namespace moegen::cache;
using namespace moegen::cache::testing;
using namespace std::chrono_literals;
namespace stdfs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

// Children that read from it wait until the parent opens it.
class Gate {
 public:
  Gate() { REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0); }
  ~Gate() {
    open();
    ::close(ends_[0]);
  }
  void open() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  void wait() {
    open();  // the child's own copy of the writing end
    char byte = 0;
    static_cast<void>(::read(ends_[0], &byte, 1));
  }

 private:
  int ends_[2] = {-1, -1};
};

void append_line(const stdfs::path& path, const std::string& line) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  static_cast<void>(::write(fd.get(), (line + "\n").data(), line.size() + 1));
}

std::map<std::string, int> count_lines(const stdfs::path& path) {
  std::istringstream in(read_text(path));
  std::map<std::string, int> counts;
  for (std::string line; std::getline(in, line);) ++counts[line];
  return counts;
}

std::string key_name(int i) { return fmt::format("kernel{}", i); }

// Waits until `condition` holds; the test fails if that takes a minute.
void wait_until(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + 60s;
  while (!condition()) {
    REQUIRE(Clock::now() < deadline);
    std::this_thread::sleep_for(1ms);
  }
}

bool is_locked(const stdfs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR));
  return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

stdfs::path claim_path(const stdfs::path& directory, const std::string& name) {
  return entry_path(directory, name).replace_extension(".claim");
}

constexpr int kProcesses = 16, kThreads = 8, kKeys = 12;

// One thread of the crowd: asks for every key, each thread in its own order. Returns how many answers were wrong.
int ask_for_all(Cache& cache, const stdfs::path& journal, int offset) {
  int wrong = 0;
  for (int i = 0; i < kKeys; ++i) {
    const std::string name = key_name((i * 5 + offset) % kKeys);
    const Found found = cache.find_or_compile(stub_key(name), kCompiler, [&] {
      append_line(journal, name);
      std::this_thread::sleep_for(50ms);
      return stub_entry(name, 20'000);
    });
    wrong += !same(*found.entry, stub_entry(name, 20'000));
  }
  return wrong;
}

int crowd_member(const stdfs::path& directory, const stdfs::path& journal, int process,
                 std::shared_ptr<FileSystem> file_system) {
  LogRecord log;
  Options options = options_for(directory, log);
  options.file_system = std::move(file_system);
  options.claim_wait_s = 120;  // a loaded machine must not turn a slow owner into a second compile here
  Cache cache(options);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { wrong += ask_for_all(cache, journal, process * 3 + t); });
    }
  }
  return wrong > 0 || log.size() > 0 ? 1 : 0;
}

}  // namespace

TEST_CASE("16 processes of 8 threads on an empty cache compile each key once and all succeed") {
  const ScratchFolder scratch(ScratchFolder::Place::disk);
  const stdfs::path directory = scratch.path() / "cache", journal = scratch.path() / "journal";
  Gate gate;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(start_child([&, p] {
      gate.wait();
      return crowd_member(directory, journal, p, nullptr);
    }));
  }
  gate.open();
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  const auto compiles = count_lines(journal);
  CHECK(compiles.size() == kKeys);
  for (const auto& [name, count] : compiles) CHECK_MESSAGE(count == 1, name);
  CHECK(files_ending(directory, ".moegen").size() == kKeys);
  CHECK(files_ending(directory, ".claim").empty());
  LogRecord log;
  Cache cache(options_for(directory, log));
  const Stats stats = cache.stats();
  CHECK(stats.compiled == kKeys);
  CHECK(stats.corrupt == 0);
  CHECK(stats.hits == kKeys * (kProcesses - 1));  // each process reads each key that it did not compile, once
}

TEST_CASE("where locks do not work every process compiles for itself, and all succeed") {
  class LocklessFileSystem : public FastFileSystem {
   public:
    int lock(int, int) override {
      errno = ENOLCK;
      return -1;
    }
  };
  const ScratchFolder scratch;
  const stdfs::path directory = scratch.path() / "cache", journal = scratch.path() / "journal";
  Gate gate;
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(start_child([&, p] {
      gate.wait();
      return crowd_member(directory, journal, p, std::make_shared<LocklessFileSystem>());
    }));
  }
  gate.open();
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  int compiles = 0;
  for (const auto& [name, count] : count_lines(journal)) compiles += count;
  CHECK(compiles > kKeys);  // which also shows that the journal of the test above would notice
  CHECK(compiles <= 4 * kKeys);
  CHECK(files_ending(directory, ".moegen").size() == kKeys);
}

namespace {

// Builds, evicts, repairs and reads until it is killed.
[[noreturn]] void busy_forever(const stdfs::path& directory, unsigned seed) {
  std::mt19937 random(seed);
  LogRecord log;
  while (true) {
    Options options = options_for(directory, log);
    if (seed % 2 == 0) options.file_system = nullptr;
    options.max_bytes = 60'000;
    Cache cache(options);
    for (int i = 0; i < 10; ++i) {
      const std::string name = key_name(static_cast<int>(random() % 12));
      cache.find_or_compile(stub_key(name), kCompiler, [&] {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        return stub_entry(name, 10'000);
      });
    }
    std::error_code ignored;
    if (random() % 4 == 0) stdfs::resize_file(entry_path(directory, key_name(0)), 99, ignored);
  }
}

}  // namespace

TEST_CASE("SIGKILL at random moments 200 times leaves a cache that works") {
  const ScratchFolder scratch(ScratchFolder::Place::disk);
  const stdfs::path directory = scratch.path() / "cache";
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  int killed = 0, left_behind = 0;
  for (int i = 0; i < 200; ++i) {
    const pid_t child = start_child([&, i]() -> int { busy_forever(directory, seed + static_cast<unsigned>(i)); });
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + random() % 20'000));
    ::kill(child, SIGKILL);
    killed += wait_for(child) == 1000 + SIGKILL;
    left_behind += !files_ending(directory, ".claim").empty();
    for (const auto& path : files_ending(directory, ".moegen")) {
      BadEntry bad;
      const bool whole = decode(read_text(path), bad).has_value();
      REQUIRE_MESSAGE((whole || stdfs::file_size(path) == 99), bad.reason);
    }
  }
  CHECK(killed == 200);
  CHECK(left_behind >= 20);  // deaths in the middle of something really happened
  const auto start = Clock::now();
  for (int run = 0; run < 2; ++run) {
    LogRecord log;
    Cache cache(options_for(directory, log));
    for (int k = 0; k < 12; ++k) {
      const Found found =
          cache.find_or_compile(stub_key(key_name(k)), kCompiler, [&] { return stub_entry(key_name(k), 10'000); });
      CHECK(same(*found.entry, stub_entry(key_name(k), 10'000)));
      if (run == 1) CHECK(found.status == BuildStatus::cached);
    }
    CHECK(log.warnings().empty());
  }
  CHECK(Clock::now() - start < 5s);  // no wait for claims of the dead
}

TEST_CASE("a dead owner of a claim is noticed at once") {
  const ScratchFolder scratch;
  const stdfs::path directory = scratch.path() / "cache";
  LogRecord log;
  const pid_t owner = start_child([&] {
    Cache cache(options_for(directory, log));
    cache.find_or_compile(stub_key("a"), kCompiler, [&]() -> Entry {
      std::this_thread::sleep_for(120s);
      return stub_entry("a");
    });
    return 0;
  });
  wait_until([&] { return is_locked(claim_path(directory, "a")); });
  Options options = options_for(directory, log);
  options.claim_wait_s = 60;
  Cache cache(options);
  std::atomic<int> calls{0};
  Found found;
  std::jthread waiter([&] { found = cache.find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a")); });
  std::this_thread::sleep_for(100ms);
  CHECK(calls == 0);
  const auto start = Clock::now();
  ::kill(owner, SIGKILL);
  wait_for(owner);
  waiter.join();
  CHECK(Clock::now() - start < 5s);
  CHECK(found.status == BuildStatus::compiled);
  CHECK(files_ending(directory, ".claim").empty());
  CHECK(log.size() == 0);
}

TEST_CASE("a slow owner is waited for only so long; then both compile, and both are right") {
  const ScratchFolder scratch;
  const stdfs::path directory = scratch.path() / "cache";
  LogRecord log;
  Gate gate;
  const pid_t owner = start_child([&] {
    Cache cache(options_for(directory, log));
    const Found found = cache.find_or_compile(stub_key("a"), kCompiler, [&] {
      gate.wait();
      return stub_entry("a");
    });
    return found.status == BuildStatus::compiled ? 0 : 1;
  });
  wait_until([&] { return is_locked(claim_path(directory, "a")); });
  Options options = options_for(directory, log);
  options.claim_wait_s = 0.3;
  Cache cache(options);
  std::atomic<int> calls{0};
  const auto start = Clock::now();
  const Found found = cache.find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a"));
  CHECK(Clock::now() - start >= 300ms);
  CHECK(found.status == BuildStatus::compiled);
  CHECK(same(*found.entry, stub_entry("a")));
  CHECK(log.size() == 1);  // says that it waited
  CHECK(log.warnings().empty());
  CHECK(is_locked(claim_path(directory, "a")));  // the owner's claim is still the owner's
  gate.open();
  CHECK(wait_for(owner) == 0);
  CHECK(files_ending(directory, ".moegen").size() == 1);
  CHECK(files_ending(directory, ".claim").empty());
}

TEST_CASE("a waiter takes what the owner stored") {
  const ScratchFolder scratch;
  const stdfs::path directory = scratch.path() / "cache";
  LogRecord log;
  Gate gate;
  const pid_t owner = start_child([&] {
    Cache cache(options_for(directory, log));
    cache.find_or_compile(stub_key("a"), kCompiler, [&] {
      gate.wait();
      return stub_entry("a");
    });
    return 0;
  });
  wait_until([&] { return is_locked(claim_path(directory, "a")); });
  std::jthread opener([&] {
    std::this_thread::sleep_for(100ms);
    gate.open();
  });
  Options options = options_for(directory, log);
  options.claim_wait_s = 60;
  Cache cache(options);
  std::atomic<int> calls{0};
  CHECK(cache.find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a")).status == BuildStatus::cached);
  CHECK(calls == 0);
  opener.join();
  CHECK(wait_for(owner) == 0);
}

TEST_CASE("when the owner's compile fails, the waiter compiles") {
  const ScratchFolder scratch;
  const stdfs::path directory = scratch.path() / "cache";
  LogRecord log;
  Gate gate;
  const pid_t owner = start_child([&] {
    Cache cache(options_for(directory, log));
    try {
      cache.find_or_compile(stub_key("a"), kCompiler, [&]() -> Entry {
        gate.wait();
        throw std::runtime_error("no");
      });
    } catch (const std::runtime_error&) {
      return 0;
    }
    return 1;
  });
  wait_until([&] { return is_locked(claim_path(directory, "a")); });
  std::jthread opener([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  Options options = options_for(directory, log);
  options.claim_wait_s = 60;
  std::atomic<int> calls{0};
  CHECK(Cache(options).find_or_compile(stub_key("a"), kCompiler, counted_compile(calls, "a")).status ==
        BuildStatus::compiled);
  opener.join();
  CHECK(wait_for(owner) == 0);
}

TEST_CASE("the size cap holds under 4 processes that store, read and are counted at any moment") {
  const ScratchFolder scratch;
  const stdfs::path directory = scratch.path() / "cache";
  const std::uint64_t cap = 20 * encode(stub_entry("kernel100", 4000)).size();
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(start_child([&, p] {
      LogRecord log;
      Options options = options_for(directory, log);
      options.max_bytes = cap;
      int wrong = 0;
      for (int i = 0; i < 150; ++i) {
        Cache cache(options);
        const std::string name = key_name(100 + (i * 7 + p * 31) % 90);
        const auto compile = [&] { return stub_entry(name, 4000); };
        wrong += !same(*cache.find_or_compile(stub_key(name), kCompiler, compile).entry, compile());
      }
      return wrong > 0 || !log.warnings().empty() ? 1 : 0;
    }));
  }
  const stdfs::path ledger = directory / "v1" / "ledger";
  wait_until([&] { return stdfs::exists(ledger); });
  std::uint64_t most = 0;
  int samples = 0;
  for (std::size_t done = 0; done < children.size();) {
    {
      const UniqueFd fd(::open(ledger.c_str(), O_RDWR));
      REQUIRE(::flock(fd.get(), LOCK_EX) == 0);  // nobody publishes while we count
      std::uint64_t held = 0;
      for (const auto& path : files_ending(directory, ".moegen")) held += stdfs::file_size(path);
      most = std::max(most, held);
      ++samples;
    }
    std::this_thread::sleep_for(2ms);
    int status = 0;
    if (::waitpid(children[done], &status, WNOHANG) != 0) {
      CHECK(status == 0);
      ++done;
    }
  }
  CHECK(samples > 10);
  CHECK(most <= cap);
  CHECK(most > cap / 2);  // the cap was really reached
}

TEST_CASE("the folder deleted again and again under 4 processes harms nobody") {
  const ScratchFolder scratch;
  const stdfs::path directory = scratch.path() / "cache";
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(start_child([&, p] {
      LogRecord log;
      int wrong = 0, most_warnings = 0;
      for (int i = 0; i < 100; ++i) {
        LogRecord own_log;
        Cache cache(options_for(directory, own_log));
        for (int k = 0; k < 3; ++k) {
          const std::string name = key_name((i + p + k) % 9);
          const auto compile = [&] { return stub_entry(name, 1000); };
          wrong += !same(*cache.find_or_compile(stub_key(name), kCompiler, compile).entry, compile());
        }
        most_warnings = std::max(most_warnings, static_cast<int>(own_log.warnings().size()));
      }
      return wrong > 0 || most_warnings > 1 ? 1 : 0;
    }));
  }
  for (int i = 0; i < 100; ++i) {
    std::error_code ignored;
    stdfs::remove_all(directory, ignored);
    std::this_thread::sleep_for(1ms);
  }
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  LogRecord log;
  std::atomic<int> calls{0};
  Cache(options_for(directory, log)).find_or_compile(stub_key("z"), kCompiler, counted_compile(calls, "z"));
  CHECK(Cache(options_for(directory, log)).find(stub_key("z"), kCompiler).has_value());
}
