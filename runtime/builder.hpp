// SPDX-License-Identifier: Apache-2.0
// Builder: Plan -> stored kernel, through the cache and the compiler. Needs neither driver nor GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <moegen/engine.hpp>
#include <moegen/plan.hpp>
#include <moegen/source.hpp>

#include "cache/cache.hpp"
#include "logger.hpp"
#include "toolchain.hpp"

namespace moegen {

/// How messages name the kernel of `plan`: "create_indices of 'deepseek_v3' for sm_90a".
std::string label_of(const Plan& plan);

/// The stored parts of a kernel, in the order of Builder::parts.
using Parts = std::vector<cache::Found>;

/// Thread-safe.
class Builder {
 public:
  /// Throws: config if `options.template_dir` cannot be read.
  Builder(const EngineOptions& options, Logger log);

  /// What of `plan` is compiled and stored apart.
  std::vector<Plan> parts(const Plan& plan) const;

  /// The kernel of `plan`: each part from memory, a pack or the user cache, else compiled, on a thread for each.
  /// `config_file` stands for the config in the command that a message suggests; empty: the config's name.
  /// Throws: compile; unsupported if a part is stored nowhere and cannot be compiled here (strict mode, no compiler).
  Parts build(const Plan& plan, const std::string& config_file = {});

  /// The same without compiling. Nothing if a part would have to be compiled.
  std::optional<Parts> find(const Plan& plan);

  Target target() const noexcept { return toolchain_->target(); }

  /// False in strict mode and on a machine without the compiler: then only what is stored can be had.
  bool can_compile() const;

 private:
  struct Request;  ///< a part's plan with its source and key

  std::vector<Request> requests(const std::vector<Plan>& parts) const;
  void compile_all(const std::vector<Request>& asked, const std::vector<std::size_t>& missing,
                   const std::string& config_file, Parts& built);
  std::optional<cache::Found> find(Request& request);
  bool is_current(const cache::Found& found) const;
  cache::Found compile(const Request& request, const std::string& config_file);
  cache::Entry compile_entry(const Request& request) const;
  [[noreturn]] void refuse_miss(const Request& request, const std::string& config_file, const std::string& why) const;
  void refuse_spills(const Request& request, const Compiled& compiled) const;

  EngineOptions options_;
  Logger log_;
  std::shared_ptr<const Toolchain> toolchain_;
  std::optional<Templates> overrides_;
  cache::Cache cache_;
};

}  // namespace moegen
