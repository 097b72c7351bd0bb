// SPDX-License-Identifier: Apache-2.0
// Toolchain: what turns a source text into a stored kernel, for one target.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/arch.hpp>
#include <moegen/engine.hpp>
#include <moegen/plan.hpp>

namespace moegen {

/// What a compiler made of one source text.
struct Compiled {
  std::string payload;  ///< an ELF file, never empty
  std::vector<EntryResources> resources;
  std::string log;
};

/// Thread-safe. Loads its compiler when it is first needed.
class Toolchain {
 public:
  virtual ~Toolchain() = default;
  virtual Target target() const noexcept = 0;
  /// What of `plan` is compiled and stored by itself: plans with some of its entries, in their order.
  virtual std::vector<Plan> parts(const Plan& plan) const = 0;
  /// What a compile for `arch` depends on besides source and arch: fields of the cache key.
  virtual std::vector<std::string> flags(const Arch& arch) const = 0;
  /// What `moegen build` needs beside kernel and arch to make the same object: "", " --target cpu --check".
  virtual std::string build_options() const = 0;
  /// True if the compiler is on this machine; else `why`, if given, says what was tried and how to get it.
  virtual bool available(std::string* why = nullptr) const = 0;
  /// "nvrtc-13.0". Only where available.
  virtual std::string version() const = 0;
  /// True if a kernel that the compiler called `version` made is what this machine's would make.
  virtual bool is_current(std::string_view version) const = 0;
  /// `file_name` stands for the text in diagnostics; `entries` are the names that the result must have.
  /// Throws: compile, with source and log; unsupported if the compiler does not know `arch`; config for an environment
  /// that would change code behind the cache key.
  virtual Compiled compile(std::string_view source, const std::string& file_name, const Arch& arch,
                           const std::vector<std::string>& entries) const = 0;
};

/// The toolchain that `options` ask for.
std::shared_ptr<const Toolchain> make_toolchain(const EngineOptions& options);

}  // namespace moegen
