// SPDX-License-Identifier: Apache-2.0
// KernelProvider: how an Engine comes by a kernel that is ready to run, on one target.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <moegen/config.hpp>
#include <moegen/family.hpp>
#include <moegen/kernel.hpp>

#include "builder.hpp"

namespace moegen {

/// Thread-safe.
class KernelProvider {
 public:
  virtual ~KernelProvider() = default;
  /// Number of the device that the calling thread would run on; what it makes ready is ready on that device.
  /// Throws: driver if there is none.
  virtual int current_device() const = 0;
  /// Plans, builds, loads and prepares. Throws: as Engine::get.
  virtual std::shared_ptr<const Kernel::State> make_ready(const Config& config, std::string_view name, int device) = 0;
};

/// The provider of `options.target`; `builder` and `log` outlive it.
std::unique_ptr<KernelProvider> make_provider(const EngineOptions& options, Builder& builder, const Logger& log);

/// The family of `plan`. Throws: internal if there is none.
const Family& family_of(const Plan& plan);

/// The config's file if it came from one, else ""; messages put it into commands.
std::string file_of(const Config& config);

}  // namespace moegen
