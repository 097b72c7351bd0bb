// SPDX-License-Identifier: Apache-2.0
// Which kernels of which configs for which architectures: what CONFIG, --kernel and --arch mean to every command.
#pragma once

#include <string>
#include <vector>

#include <moegen/arch.hpp>
#include <moegen/config.hpp>
#include <moegen/plan.hpp>

#include "support/options.hpp"

namespace moegen::cli {

/// The words as given.
struct Selection {
  std::vector<std::string> configs;
  std::vector<std::string> kernels;  ///< empty: every kernel that this version has
  std::vector<std::string> archs;    ///< empty: sm_90a

  /// Declares CONFIG..., --kernel and --arch.
  void declare(Options& options);
  void declare_kernels(Options& options);
  void declare_archs(Options& options);
};

/// One kernel to make.
struct Job {
  Config config;
  std::string kernel;
  const Arch* arch;
};

/// Reads config files; "-" is standard input and may occur once. Throws: config.
std::vector<Config> read_configs(const std::vector<std::string>& paths);

/// The kernels of `config` that `words` name: families or kernels, all that this version has if there are none. In the
/// order of a layer's work. Throws: config for a name that does not exist or that `config` does not need, unsupported
/// for one that comes with a later version.
std::vector<std::string> select_kernels(const Config& config, const std::vector<std::string>& words);

/// Archs by name, "all" for each of them; ascending and without repeats. Throws: config.
std::vector<const Arch*> select_archs(const std::vector<std::string>& words);

/// Each of `configs` with each of its selected kernels with each arch, in this order.
std::vector<Job> select_jobs(const std::vector<Config>& configs, const Selection& selection);

/// The kernels of `configs` that this version lacks, without repeats.
std::vector<std::string> missing_kernels(const std::vector<Config>& configs);

/// Says on standard error which kernels of `configs` are left out because this version lacks them.
void note_missing_kernels(const std::vector<Config>& configs);

}  // namespace moegen::cli
