// SPDX-License-Identifier: Apache-2.0
// The order of lookup (memory, packs, folder, compile) and who compiles; each step is its own file.
#include "cache/cache.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include <moegen/error.hpp>

#include "cache/claim.hpp"
#include "cache/collector.hpp"
#include "cache/folder.hpp"
#include "cache/ledger.hpp"
#include "cache/memory.hpp"
#include "cache/pack.hpp"
#include "cache/store.hpp"

namespace moegen::cache {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kElfMagic =
    "\x7f"
    "ELF";
constexpr std::string_view kConsequence = "kernels are kept in memory only";
constexpr auto kFlushWait = 50ms;  // at the end of a process; losing a count is better than a late exit
constexpr auto kCollectWait = 2000ms;

std::filesystem::path absolute_or_same(const std::filesystem::path& path) {
  if (path.empty()) return path;
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute;
}

void check_promise(const Entry& entry, const CacheKey& key, std::string_view compiler) {
  const auto fail = [&](std::string_view fact) {
    throw Error(ErrorCode::internal, fmt::format("the compile of kernel '{}' returned {}", entry.kernel, fact));
  };
  if (entry.key != key.digest() || entry.key_fields != key.fields()) fail("an entry for another key");
  if (entry.compiler != compiler) fail(fmt::format("an entry of compiler '{}', not '{}'", entry.compiler, compiler));
  if (!entry.payload.starts_with(kElfMagic)) fail("a payload that is not an ELF file");
}

std::chrono::steady_clock::time_point deadline_after(double seconds) {
  const auto wait = std::chrono::duration<double>(seconds);
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

std::string iso_time(std::int64_t unix_s) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_s)));
}

// A pack and whether it has been complained about.
struct UsedPack {
  explicit UsedPack(Pack opened) : pack(std::move(opened)) {}
  Pack pack;
  std::atomic<bool> warned{false};
};

}  // namespace

struct Cache::State {
  using Compile = std::function<Entry()>;
  using Question = std::pair<std::string, std::string>;  // key digest, compiler

  explicit State(Options asked);
  ~State();

  void say(LogLevel level, const std::string& message) const;
  void warn_once(const std::string& fact);
  void open_packs();
  FolderHandle open_folder(bool create);

  Found remember(const CacheKey& key, std::string_view compiler, Entry entry, BuildStatus status);
  std::optional<Found> find(const CacheKey& key, std::string_view compiler);
  std::optional<Found> find_in_packs(const CacheKey& key, std::string_view compiler);
  std::optional<Found> find_in_folder(const CacheKey& key, std::string_view compiler);
  Found compile_alone(const CacheKey& key, std::string_view compiler, const Compile& compile,
                      const FolderHandle& handle);
  Found compile_once(const CacheKey& key, std::string_view compiler, const Compile& compile);
  void store_entry(const Entry& entry, const FolderHandle& handle);

  Options options;
  std::shared_ptr<FileSystem> fs;
  Folder folder;
  Ledger ledger;
  Memory memory;
  std::deque<UsedPack> packs;
  std::atomic<bool> warned{false};
  std::mutex flights_mutex;
  std::map<Question, std::shared_future<Found>> flights;  // guarded by flights_mutex
};

Cache::State::State(Options asked)
    : options(std::move(asked)),
      fs(options.file_system ? options.file_system : std::make_shared<FileSystem>()),
      folder(absolute_or_same(options.directory), *fs),
      ledger(*fs),
      memory(options.max_memory_bytes) {
  open_packs();
}

Cache::State::~State() {
  const Folder::Opened opened = folder.open(false);
  if (opened.handle) ledger.flush(opened.handle->get(), kFlushWait);
}

void Cache::State::say(LogLevel level, const std::string& message) const {
  if (options.log) options.log(level, message);
}

void Cache::State::warn_once(const std::string& fact) {
  const LogLevel level = warned.exchange(true) ? LogLevel::debug : LogLevel::warning;
  say(level, fmt::format("{}; {}", fact, kConsequence));
}

void Cache::State::open_packs() {
  for (const std::filesystem::path& path : options.packs) {
    try {
      packs.emplace_back(Pack::open(path));
    } catch (const Error& error) {
      say(LogLevel::warning, fmt::format("pack is not used: {}", error.what()));
    }
  }
}

FolderHandle Cache::State::open_folder(bool create) {
  const Folder::Opened opened = folder.open(create);
  if (!opened.problem.empty()) warn_once(opened.problem);
  return opened.handle;
}

Found Cache::State::remember(const CacheKey& key, std::string_view compiler, Entry entry, BuildStatus status) {
  return {memory.insert(key.digest(), compiler, std::make_shared<const Entry>(std::move(entry))), status};
}

std::optional<Found> Cache::State::find(const CacheKey& key, std::string_view compiler) {
  if (auto entry = memory.find(key.digest(), compiler)) return Found{std::move(entry), BuildStatus::memory};
  if (auto found = find_in_packs(key, compiler)) return found;
  return find_in_folder(key, compiler);
}

std::optional<Found> Cache::State::find_in_packs(const CacheKey& key, std::string_view compiler) {
  for (UsedPack& used : packs) {
    BadEntry bad;
    auto entry = used.pack.find(key.digest(), bad);
    if (entry) return remember(key, compiler, std::move(*entry), BuildStatus::pack);
    if (bad.reason.empty()) continue;
    say(used.warned.exchange(true) ? LogLevel::debug : LogLevel::warning,
        fmt::format("pack is damaged: {}: entry {}: {}", used.pack.path().string(), key.digest(), bad.reason));
  }
  return std::nullopt;
}

std::optional<Found> Cache::State::find_in_folder(const CacheKey& key, std::string_view compiler) {
  const FolderHandle handle = open_folder(false);
  if (!handle) return std::nullopt;
  std::vector<std::string> paths{stem_of(key.digest(), compiler) + std::string(kEntrySuffix)};
  if (compiler.empty()) paths = paths_of(*fs, handle->get(), key.digest());
  for (const std::string& path : paths) {
    std::string bad_reason;
    auto entry = fetch(*fs, ledger, handle->get(), path, key.digest(), compiler, &bad_reason);
    if (!bad_reason.empty()) say(LogLevel::info, fmt::format("cache entry '{}' is set aside: {}", path, bad_reason));
    ledger.flush(handle->get(), 0ms);
    if (entry) return remember(key, compiler, std::move(*entry), BuildStatus::cached);
  }
  return std::nullopt;
}

void Cache::State::store_entry(const Entry& entry, const FolderHandle& handle) {
  const std::string bytes = encode(entry);
  if (!handle) return;
  const std::string path = stem_of(entry.key, entry.compiler) + std::string(kEntrySuffix);
  const std::error_code error = store(*fs, ledger, handle->get(), path, entry.key, bytes, options.max_bytes);
  if (error) {
    warn_once(fmt::format("cache folder '{}': cannot store an entry of {} bytes: {}", folder.directory().string(),
                          bytes.size(), error.message()));
  }
}

Found Cache::State::compile_alone(const CacheKey& key, std::string_view compiler, const Compile& compile,
                                  const FolderHandle& handle) {
  Entry entry = compile();
  check_promise(entry, key, compiler);
  ledger.count_compiled();
  store_entry(entry, handle);
  return remember(key, compiler, std::move(entry), BuildStatus::compiled);
}

Found Cache::State::compile_once(const CacheKey& key, std::string_view compiler, const Compile& compile) {
  if (auto found = find(key, compiler)) return *found;
  const FolderHandle handle = open_folder(true);
  if (!handle) return compile_alone(key, compiler, compile, handle);
  (void)make_bucket(*fs, handle->get(), key.digest());  // if it fails, so does the claim, and then the store says why
  const Claim claim =
      Claim::acquire(*fs, handle, stem_of(key.digest(), compiler), deadline_after(options.claim_wait_s));
  if (auto found = find_in_folder(key, compiler)) return *found;  // whoever had the claim before has stored it
  if (claim.timed_out()) {
    say(LogLevel::info, fmt::format("another process has been compiling key {} for {} s; compiling it here too",
                                    key.digest(), options.claim_wait_s));
  }
  return compile_alone(key, compiler, compile, handle);
}

Cache::Cache(Options options) : state_(std::make_unique<State>(std::move(options))) {}
Cache::~Cache() = default;

std::optional<Found> Cache::find(const CacheKey& key, std::string_view compiler) { return state_->find(key, compiler); }

Found Cache::find_or_compile(const CacheKey& key, std::string_view compiler, const std::function<Entry()>& compile) {
  if (auto entry = state_->memory.find(key.digest(), compiler)) return {std::move(entry), BuildStatus::memory};
  const State::Question question{key.digest(), std::string(compiler)};
  std::promise<Found> promise;
  std::unique_lock lock(state_->flights_mutex);
  const auto [flight, leads] = state_->flights.try_emplace(question);
  if (leads) flight->second = promise.get_future().share();
  const std::shared_future<Found> result = flight->second;
  lock.unlock();
  if (!leads) return {result.get().entry, BuildStatus::memory};
  try {
    promise.set_value(state_->compile_once(key, compiler, compile));
  } catch (...) {
    promise.set_exception(std::current_exception());
  }
  lock.lock();
  state_->flights.erase(question);
  lock.unlock();
  return result.get();
}

Stats Cache::stats() const {
  Stats stats;
  const Folder::Opened opened = state_->folder.open(false);
  if (!opened.handle) return stats;
  for (const FolderFile& file : scan(*state_->fs, opened.handle->get())) {
    if (file.kind != FileKind::entry) continue;
    ++stats.entries;
    stats.bytes += file.bytes;
  }
  const Totals totals = state_->ledger.read(opened.handle->get());
  stats.hits = static_cast<std::uint64_t>(totals.hits);
  stats.compiled = static_cast<std::uint64_t>(totals.compiled);
  stats.corrupt = static_cast<std::uint64_t>(totals.corrupt);
  return stats;
}

std::vector<Cache::Listed> Cache::list() const {
  std::vector<Listed> listed;
  const Folder::Opened opened = state_->folder.open(false);
  if (!opened.handle) return listed;
  for (const FolderFile& file : scan(*state_->fs, opened.handle->get())) {
    if (file.kind != FileKind::entry && file.kind != FileKind::set_aside) continue;
    Loaded loaded = load(*state_->fs, opened.handle->get(), file.path);
    if (!loaded.entry && loaded.bad.reason.empty()) loaded.bad.reason = "cannot be read";
    listed.push_back({directory() / file.path, file.bytes, std::move(loaded.entry), loaded.bad.reason,
                      file.kind == FileKind::set_aside, iso_time(file.last_used_s)});
  }
  return listed;
}

std::uint64_t Cache::collect(std::uint64_t max_bytes) {
  Collected collected;
  const Folder::Opened opened = state_->folder.open(false);
  if (!opened.handle) return 0;
  const int folder = opened.handle->get();
  state_->ledger.update(folder, kCollectWait, [&](Totals& totals, bool) {
    const std::int64_t now_s = unix_time_s();
    collected = cache::collect(*state_->fs, folder, scan(*state_->fs, folder), max_bytes, now_s);
    totals.bytes = static_cast<std::int64_t>(collected.kept_bytes);
    totals.last_scan_s = now_s;
  });
  return collected.freed_bytes;
}

const std::filesystem::path& Cache::directory() const noexcept { return state_->folder.directory(); }

std::string Cache::refusal() const { return state_->folder.open(false).problem; }

std::string Cache::problem() const {
  const Folder::Opened opened = state_->folder.open(false);
  if (!opened.handle) return opened.problem;
  if (::faccessat(opened.handle->get(), ".", W_OK, AT_EACCESS) == 0) return {};
  return fmt::format("cache folder '{}' cannot be written: {}", directory().string(), last_error().message());
}

}  // namespace moegen::cache
