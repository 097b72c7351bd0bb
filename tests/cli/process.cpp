// SPDX-License-Identifier: Apache-2.0
#include "cli/process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace moegen::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

/// The end the child gets and the end we keep; -1 where there is none.
struct Ends {
  int child = -1, ours = -1;
};

Ends make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) fail("pipe");
  return {fds[1], fds[0]};
}

Ends make_terminal() {
  winsize size = {24, 80, 0, 0};
  int ours = -1, child = -1;
  if (::openpty(&ours, &child, nullptr, nullptr, &size) != 0) fail("openpty");
  ::fcntl(ours, F_SETFD, FD_CLOEXEC);
  ::fcntl(child, F_SETFD, FD_CLOEXEC);
  return {child, ours};
}

Ends ends_of(Stream stream) {
  switch (stream) {
    case Stream::pipe: return make_pipe();
    case Stream::terminal: return make_terminal();
    case Stream::closed: return {};
    case Stream::full_disk: return {::open("/dev/full", O_WRONLY | O_CLOEXEC), -1};
    case Stream::reader_gone: {
      const Ends ends = make_pipe();
      ::close(ends.ours);
      return {ends.child, -1};
    }
  }
  return {};
}

std::map<std::string, std::string> environment_of(const Invocation& invocation) {
  std::map<std::string, std::string> env;
  for (char** each = environ; *each; ++each) {
    const std::string assignment = *each;
    const auto equals = assignment.find('=');
    env[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  std::erase_if(env, [](const auto& item) { return item.first.starts_with("MOEGEN_"); });
  for (const char* name : {"XDG_CACHE_HOME", "NVRTC_APPEND_FLAGS"}) env.erase(name);
  env["TERM"] = "xterm";
  for (const auto& [name, value] : invocation.env) {
    if (value) env[name] = *value;
    if (!value) env.erase(name);
  }
  return env;
}

/// argv or envp: the strings and their pointers with the null at the end.
struct CStrings {
  std::vector<std::string> strings;
  std::vector<char*> pointers() {
    std::vector<char*> list;
    for (std::string& each : strings) list.push_back(each.data());
    list.push_back(nullptr);
    return list;
  }
};

void place(int from, int to) {
  if (from == -1) {
    ::close(to);
  } else {
    ::dup2(from, to);
  }
}

void become(unsigned user) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(126);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0) return;  // the child does not read its input
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

Process::Process(const Invocation& invocation) {
  ::signal(SIGPIPE, SIG_IGN);
  const Ends in = make_pipe(), out = ends_of(invocation.out), err = ends_of(invocation.err);
  CStrings args{{invocation.program.empty() ? MOEGEN_BINARY : invocation.program.string()}}, env;
  args.strings.insert(args.strings.end(), invocation.args.begin(), invocation.args.end());
  for (const auto& [name, value] : environment_of(invocation)) env.strings.emplace_back(name).append("=").append(value);
  const auto argv = args.pointers(), envp = env.pointers();
  pid_ = ::fork();
  if (pid_ == -1) fail("fork");
  if (pid_ == 0) {
    ::setpgid(0, 0);
    for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    place(in.ours, 0), place(out.child, 1), place(err.child, 2);
    if (!invocation.working_directory.empty() && ::chdir(invocation.working_directory.c_str()) != 0) ::_exit(126);
    if (invocation.user) become(*invocation.user);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(in.ours);
  for (const int fd : {out.child, err.child}) {
    if (fd != -1) ::close(fd);
  }
  out_.fd = out.ours, err_.fd = err.ours, input_ = in.child;
  write_all(input_, invocation.input);
  if (!invocation.hold_input_open) ::close(input_), input_ = -1;
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {input_, out_.fd, err_.fd}) {
    if (fd != -1) ::close(fd);
  }
}

void Process::kill(int signal) const { ::kill(pid_, signal); }

/// False once both streams have ended.
bool Process::pump(int timeout_ms) {
  pollfd fds[2] = {{out_.fd, POLLIN, 0}, {err_.fd, POLLIN, 0}};
  if (out_.fd == -1 && err_.fd == -1) return false;
  if (::poll(fds, 2, timeout_ms) <= 0) return true;
  Reader* readers[2] = {&out_, &err_};
  for (int i = 0; i < 2; ++i) {
    if (readers[i]->fd == -1 || fds[i].revents == 0) continue;
    char buffer[4096];
    const ssize_t count = ::read(readers[i]->fd, buffer, sizeof buffer);
    if (count > 0) {
      readers[i]->text.append(buffer, static_cast<std::size_t>(count));
    } else {
      ::close(std::exchange(readers[i]->fd, -1));
    }
  }
  return true;
}

bool Process::read_until(const std::function<bool(const std::string&, const std::string&)>& done, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!done(out_.text, err_.text)) {
    if (Clock::now() > end || !pump(20)) return false;
  }
  return true;
}

Outcome Process::wait(double seconds) {
  const auto start = Clock::now();
  const auto late = [&] { return std::chrono::duration<double>(Clock::now() - start).count() > seconds; };
  while (pump(20)) {
    if (late()) break;
  }
  if (late()) ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, late() ? 0 : WNOHANG) == 0) {
    if (late()) ::kill(pid_, SIGKILL);
    ::usleep(1000);
  }
  pid_ = -1;
  Outcome outcome;
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome.out = out_.text;
  outcome.err = err_.text;
  return outcome;
}

Outcome run(const Invocation& invocation) { return Process(invocation).wait(); }

Outcome run_moegen(std::vector<std::string> args, const fs::path& cache) {
  Invocation invocation;
  invocation.args = std::move(args);
  if (!cache.empty()) invocation.env["MOEGEN_CACHE_DIR"] = cache.string();
  return run(invocation);
}

// Beside the program as in an installation: where the launcher looks for NVRTC last.
fs::path copy_program(const fs::path& folder) {
  const fs::path program = folder / "bin/moegen", libraries = folder / "lib/moegen/nvrtc";
  fs::create_directories(program.parent_path());
  fs::create_directories(libraries);
  fs::copy_file(MOEGEN_BINARY, program);
  const std::string nvrtc = MOEGEN_NVRTC_DIR;
  if (nvrtc.empty()) return program;
  for (const auto& file : fs::directory_iterator(nvrtc)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with("libnvrtc") && name.find(".so.") != std::string::npos && !file.is_symlink())
      fs::copy_file(file.path(), libraries / name);
  }
  return program;
}

bool has_terminals() {
  int ours = -1, child = -1;
  if (::openpty(&ours, &child, nullptr, nullptr, nullptr) != 0) return false;
  ::close(ours), ::close(child);
  return true;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "moegen-cli-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail("mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file) fail(path.string());
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.is_regular_file()) names.push_back(fs::relative(item.path(), folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string small_config(const std::string& name) {
  return R"({"moegen": 1, "name": ")" + name + R"(",
  // a comment, which configs may have
  "hidden": 1024, "intermediate": 512, "num_experts": 64, "top_k": 4,
  "router": {"scoring": "softmax"},
  "tune": {"num_tokens": [1, 64]}
})";
}

}  // namespace moegen::test
