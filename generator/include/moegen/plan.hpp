// SPDX-License-Identifier: Apache-2.0
// Plan: every decision that turns a Config into one kernel for one arch, each with its origin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <moegen/arch.hpp>
#include <moegen/config.hpp>

namespace moegen {

/// Where a decision came from.
enum class Origin { config, tuned, derived, standard };
std::string_view to_string(Origin origin) noexcept;  ///< "config", "tuned record", "derived", "default"

using Value = std::variant<bool, std::int64_t, double, std::string>;

/// One decision. Where `constant` is set the emitter writes it into the kernel's `Params` under the same name.
struct Decision {
  std::string name;  ///< snake_case; the same word as in JSON and device code
  Value value;
  Origin origin = Origin::standard;
  std::string reason;    ///< why, for derived values and tuned ones; empty otherwise
  bool constant = true;  ///< a member of the emitted `Params`
};

/// One way to launch the kernel; the grid depends on the arguments and is the family's affair. Several entries may
/// share one function and differ in their attributes.
struct EntryPlan {
  std::string name;     ///< extern "C" name, e.g. "moegen_create_indices"
  std::string variant;  ///< short name in reports, e.g. "cluster"
  int threads = 0;      ///< block size
  int cluster = 1;      ///< largest cluster along x; the family picks the size of each launch
  int dynamic_shared_bytes = 0;
  bool cooperative = false;       ///< all blocks must be resident together
  bool dependent_launch = false;  ///< may start before its predecessor in the stream has ended (PDL)
};

/// A way that was not taken, and why.
struct Rejected {
  std::string what, reason;
};

/// A complete, deterministic recipe for one kernel. Values only.
struct Plan {
  std::string family;  ///< "create_indices"
  std::string kernel;  ///< family, or family.part ("grouped_matmul.up")
  Arch arch;
  std::string config_name;
  std::vector<Decision> decisions;            ///< in the order a reader wants them
  std::vector<EntryPlan> entries;             ///< never empty
  std::vector<ExpressionConfig> expressions;  ///< user expressions that the source contains
  std::vector<Rejected> rejected;             ///< candidates that were weighed; shown by explain() alone
  int launch_abi = 0;                         ///< version of the family's argument struct
  std::int64_t args_bytes = 0;                ///< sizeof that struct
  /// What the kernel takes: "Args", or a struct that Family::prepare makes of them at each launch.
  std::string parameter = "Args";
  std::int64_t parameter_bytes = 0;  ///< sizeof that struct; 0: args_bytes

  /// The decision called `name`. Throws: internal if there is none or it has another type.
  std::int64_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;

  /// Stable JSON of the whole plan (golden files hold it).
  std::string to_json() const;
  /// A table for people: name, value, origin and reason.
  std::string explain() const;
};

/// The kernels that `config` needs, in the order in which they run, whether or not this version has their family.
std::vector<std::string> kernels_of(const Config& config);

/// The kernels of `config` that this version can build.
std::vector<std::string> available_kernels_of(const Config& config);

/// Plans `kernel` of `config` for `arch`. Pure and deterministic.
/// Throws: config for an unknown kernel name; unsupported where the family does not exist yet or cannot do it.
Plan make_plan(const Config& config, std::string_view kernel, const Arch& arch);

}  // namespace moegen
