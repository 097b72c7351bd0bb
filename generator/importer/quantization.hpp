// SPDX-License-Identifier: Apache-2.0
// quantization_config of a config.json -> a scheme of moegen.
#pragma once

#include <string>
#include <vector>

#include <moegen/config.hpp>

#include "importer/document.hpp"

namespace moegen::importer {

/// How the experts of one layer are stored.
struct ExpertQuantization {
  Scheme scheme = Scheme::none;
  Dtype scale = Dtype::float32;
  std::string source;        ///< of the scheme
  std::string scale_source;  ///< of the scales' dtype
  std::string excluded_by;   ///< the exclusion that leaves these experts unquantised, or ""
};

/// Reads quantization_config of `root`, or of `text` where the root has none, for the experts of `layer`.
/// Throws: config for a method, algorithm or shape of scales that is not known.
ExpertQuantization read_quantization(const Document& root, const Document& text, int layer);

/// The entry of `patterns` that covers the experts of `layer`, or "". An entry is a dotted name, whole or a part, with
/// '*' for one step or within one; or "re:" and a regular expression. Throws: config for an expression that is none.
std::string excluding_pattern(const Document& quantization, const std::vector<std::string>& patterns, int layer);

}  // namespace moegen::importer
