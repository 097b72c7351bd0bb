// SPDX-License-Identifier: Apache-2.0
// A model's own Hugging Face config.json -> a moegen config, with the origin of every value. docs/import.md explains
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/dtype.hpp>

namespace moegen {

/// What to make of the model. The defaults import one whole layer as the checkpoint has it.
struct ImportOptions {
  std::string name = {};  ///< of the config; empty: from the file's name, or the model_type
  std::optional<std::int64_t> layer =
      {};                             ///< index of the layer; nothing: the first of the most frequent kind of MoE layer
  std::optional<Dtype> weights = {};  ///< bfloat16 or float8_e4m3fn: write the twin with such weights
  int expert_parallel = 1;            ///< ranks that share the experts
  int expert_parallel_rank = 0;       ///< the rank whose local experts the config holds
  int tensor_parallel = 1;            ///< ranks that share the intermediate width
};

/// One value of the config and where it comes from.
struct ImportedValue {
  std::string pointer;  ///< in the moegen config, e.g. "/router/scale"
  std::string value;    ///< as JSON
  std::string source;   ///< a pointer into config.json, a row of the model_type table with its source, or an option
};

/// Layers of the model that need the same config.
struct LayerKind {
  std::string description;  ///< "moe", "hash moe", "dense", with the sizes where MoE layers differ in them
  std::vector<int> layers;  ///< ascending
  bool moe = false;
  bool chosen = false;  ///< the imported one
};

struct ImportResult {
  std::string config;      ///< text of the moegen config, with a comment that names its origin; ends with a newline
  std::string model_type;  ///< of the (text) model
  std::vector<ImportedValue> values;  ///< in the order of the config
  std::vector<LayerKind> layers;      ///< by first layer
  std::vector<std::string> notes;     ///< sentences on what a user of the config must know
};

/// Imports `json`, the text of a config.json. `origin` is its file name, for messages and for the config's name.
/// Throws: config, as `ORIGIN: /pointer/in/config.json: fact; what is allowed`, for a dense model, an unknown
/// model_type or quantisation, a missing or odd field, or an option that does not fit. Nothing is guessed.
ImportResult import_hf(std::string_view json, std::string_view origin, const ImportOptions& options = {});

/// The model_type words that import_hf knows, sorted.
std::vector<std::string_view> importable_model_types();

}  // namespace moegen
