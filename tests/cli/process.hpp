// SPDX-License-Identifier: Apache-2.0
// Runs the real moegen binary as a user would: arguments, environment, pipes or a terminal, signals.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace moegen::test {

/// What a process left behind.
struct Outcome {
  int exit_code = -1;  ///< -1 if a signal ended it
  int signal = 0;
  std::string out, err;
  double seconds = 0;
};

/// Where a standard stream goes.
enum class Stream { pipe, terminal, closed, reader_gone, full_disk };

struct Invocation {
  std::vector<std::string> args;
  std::string input = {};                                      ///< standard input; a pipe that ends after it
  std::map<std::string, std::optional<std::string>> env = {};  ///< nothing: unset
  Stream out = Stream::pipe, err = Stream::pipe;
  std::filesystem::path working_directory = {};
  std::optional<unsigned> user = {};   ///< run as this user (needs root)
  std::filesystem::path program = {};  ///< moegen's; empty: the one that was built
  bool hold_input_open = false;        ///< standard input never ends
};

/// A process under way. The environment starts without any MOEGEN_ variable, XDG_CACHE_HOME and NVRTC_APPEND_FLAGS.
class Process {
 public:
  explicit Process(const Invocation& invocation);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const noexcept { return pid_; }
  void kill(int signal) const;
  /// Reads what arrives until `done(out, err)` or the process closed its streams; false after `seconds` without either.
  bool read_until(const std::function<bool(const std::string& out, const std::string& err)>& done, double seconds = 60);
  /// Waits for the end. A process that takes longer than `seconds` is killed, which shows as a signal.
  Outcome wait(double seconds = 300);

 private:
  struct Reader {
    int fd = -1;
    std::string text;
  };
  bool pump(int timeout_ms);

  pid_t pid_ = -1;
  int input_ = -1;
  Reader out_, err_;
};

/// Runs to the end.
Outcome run(const Invocation& invocation);

/// `moegen ARGS...` with a cache folder.
Outcome run_moegen(std::vector<std::string> args, const std::filesystem::path& cache = {});

/// Copies the program, with the NVRTC that it was built with, into `folder`, and says where it is. The build folder may
/// be closed to other users: root's home is.
std::filesystem::path copy_program(const std::filesystem::path& folder);

/// Whether this machine has pseudo-terminals; a root without devpts has none.
bool has_terminals();

/// A new folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);
/// Names in `folder`, sorted; recursive.
std::vector<std::string> files_below(const std::filesystem::path& folder);

/// A valid config, small enough to read: DeepSeek-V3's shape without expert parallelism.
std::string small_config(const std::string& name = "small");

}  // namespace moegen::test
