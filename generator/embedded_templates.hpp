// SPDX-License-Identifier: Apache-2.0
// The device templates as the build embedded them (cmake/embed.cmake writes the definitions).
#pragma once

#include <cstddef>

namespace moegen {

struct EmbeddedTemplate {
  const char* path;  ///< below templates/
  const char* text;
};

extern const EmbeddedTemplate kEmbeddedTemplates[];
extern const std::size_t kNumEmbeddedTemplates;

}  // namespace moegen
