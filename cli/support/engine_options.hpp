// SPDX-License-Identifier: Apache-2.0
// An Engine as commands use it: set up by the environment, its messages in step with the progress line.
#pragma once

#include <moegen/engine.hpp>

#include "support/progress.hpp"

namespace moegen::cli {

/// Options from the environment; messages erase `progress` first. `progress` must outlive the Engine.
/// Throws: config, naming the variable.
EngineOptions engine_options(Progress& progress);

}  // namespace moegen::cli
