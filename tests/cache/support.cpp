// SPDX-License-Identifier: Apache-2.0
#include "cache/support.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

namespace moegen::cache::testing {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(Place place) {
  const bool in_memory = place == Place::memory && ::access("/dev/shm", W_OK) == 0;
  std::string name = ((in_memory ? "/dev/shm" : fs::temp_directory_path()) / fs::path("moegen-test-XXXXXX")).string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

pid_t start_child(const std::function<int()>& body) {
  std::cout.flush();  // or the child's end may print it again
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  int code = 99;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  ::_exit(code);
}

int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

CacheKey stub_key(const std::string& name) { return make_key("cuda", "sm_90a", {"--std=c++20"}, "source of " + name); }

Entry stub_entry(const std::string& name, std::size_t payload_bytes, const std::string& compiler) {
  const CacheKey key = stub_key(name);
  Entry entry{key.fields(),
              key.digest(),
              compiler,
              name,
              "cuda",
              "sm_90a",
              1,
              96,
              {},
              "\x7f"
              "ELF" +
                  name};
  entry.resources.push_back({"moegen_" + name, 40, 0, 0, 16, 1024});
  while (entry.payload.size() < payload_bytes) entry.payload += static_cast<char>(entry.payload.size() * 37 % 251);
  return entry;
}

bool same(const Entry& a, const Entry& b) { return encode(a) == encode(b); }

std::function<void(LogLevel, const std::string&)> LogRecord::sink() {
  return [this](LogLevel level, const std::string& message) {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(level, message);
  };
}

std::vector<std::string> LogRecord::warnings() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [level, message] : messages_) {
    if (level == LogLevel::warning) out.push_back(message);
  }
  return out;
}

std::size_t LogRecord::size() const {
  const std::lock_guard lock(mutex_);
  return messages_.size();
}

Options options_for(const fs::path& directory, LogRecord& log) {
  Options options;
  options.directory = directory;
  options.log = log.sink();
  options.file_system = std::make_shared<FastFileSystem>();
  return options;
}

std::function<Entry()> counted_compile(std::atomic<int>& calls, const std::string& name, std::size_t payload_bytes) {
  return [&calls, name, payload_bytes] {
    ++calls;
    return stub_entry(name, payload_bytes);
  };
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  REQUIRE(out.good());
}

std::vector<fs::path> files_ending(const fs::path& directory, const std::string& suffix) {
  std::vector<fs::path> found;
  if (!fs::exists(directory)) return found;
  for (const auto& item : fs::recursive_directory_iterator(directory)) {
    if (item.path().filename().string().ends_with(suffix)) found.push_back(item.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path entry_path(const fs::path& directory, const std::string& name) {
  const std::string digest = stub_key(name).digest();
  return directory / "v1" / digest.substr(0, 2) / (digest + "-" + kCompiler + ".moegen");
}

fs::path only_entry(const fs::path& directory) {
  const auto entries = files_ending(directory, ".moegen");
  REQUIRE(entries.size() == 1);
  return entries.front();
}

}  // namespace moegen::cache::testing
