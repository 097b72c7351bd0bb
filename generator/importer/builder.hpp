// SPDX-License-Identifier: Apache-2.0
// One layer of a model -> the values of its config.
#pragma once

#include <moegen/importer.hpp>

#include "importer/document.hpp"
#include "importer/draft.hpp"
#include "importer/layers.hpp"
#include "importer/model_types.hpp"

namespace moegen::importer {

/// A model and the layer of it that is imported.
struct Model {
  Document root;     ///< the whole file
  Document text;     ///< the language model: text_config, or the root
  Document section;  ///< what holds the fields of the experts: ModelType::section, or text
  const ModelType& type;
  int layer = 0;
  LayerRole role = LayerRole::moe;
};

/// Throws: config for a field that is missing, odd, or beyond what a config can say.
Draft build_config(const Model& model, const std::string& name, const ImportOptions& options);

}  // namespace moegen::importer
