// SPDX-License-Identifier: Apache-2.0
// Which layers of a model are MoE layers, and which of them are alike.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <moegen/importer.hpp>

#include "importer/document.hpp"
#include "importer/model_types.hpp"

namespace moegen::importer {

enum class LayerRole { other, moe, hash_moe };

/// The role of every layer. `text` is the object of the language model. Throws: config.
std::vector<LayerRole> layer_roles(const Document& text, const ModelType& type);

/// Layers grouped by role and, among MoE layers, by the sizes that lists by layer give them. Throws: config.
std::vector<LayerKind> layer_kinds(const Document& text, const Document& section, const ModelType& type,
                                   const std::vector<LayerRole>& roles);

/// The layer to import; marks its kind. Throws: config for an index that is no MoE layer, or where there is none.
int choose_layer(const Document& text, std::optional<std::int64_t> wanted, const std::vector<LayerRole>& roles,
                 std::vector<LayerKind>& kinds);

/// "0 to 2, 5" for ascending indices.
std::string spell_layers(const std::vector<int>& layers);

}  // namespace moegen::importer
