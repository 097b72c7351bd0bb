// SPDX-License-Identifier: Apache-2.0
// Source: one self-contained CUDA text, made from a Plan and the device templates.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/plan.hpp>

namespace moegen {

/// The device templates by their path below templates/, e.g. "core/types.cuh".
class Templates {
 public:
  /// The templates this library was built with.
  static const Templates& embedded();
  /// Templates read from a folder (MOEGEN_TEMPLATE_DIR, for work on kernels). Throws: config if it is not one.
  static Templates from_directory(const std::filesystem::path& directory);
  /// Text of `path`. Throws, if there is none: config where the templates are a folder's, else internal.
  std::string_view text(std::string_view path) const;

 private:
  std::map<std::string, std::string, std::less<>> files_;
  std::string folder_;  ///< where they were read from; empty: built in
};

/// A kernel's text. It contains no `#include`, and the same plan always gives the same bytes.
struct Source {
  std::string text;
  std::vector<std::string> entries;  ///< extern "C" names, each once, in the order of Plan::entries
};

/// Emits the source of `plan`. Pure and deterministic. Throws: as Templates::text.
Source emit_source(const Plan& plan, const Templates& templates = Templates::embedded());

/// What of `plan` compiles apart, at the same time where there are cores: each a plan for some of the entries, in their
/// order. One with all of them, but where Family::entries_apart says so one for each entry point. A part of a part is
/// itself. Pure and deterministic.
std::vector<Plan> parts_of(const Plan& plan);

}  // namespace moegen
