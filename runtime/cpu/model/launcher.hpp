// SPDX-License-Identifier: Apache-2.0
// Launcher: runs one launch to its end.
#pragma once

#include <functional>
#include <memory>

#include "cpu/target.hpp"

namespace moegen::cpu {

class Checker;

/// Makes the checks of a launch; called only where options.check asks for them.
using MakeChecker = std::function<std::unique_ptr<Checker>(const LaunchRequest&)>;

/// Runs `request`, whose program is a HostProgram. Blocks that need not be resident together are spread over
/// `host_threads` threads of the host (0: as many as it has cores), but where the launch is checked or in chaos: those
/// must be reproducible, and run on the calling thread alone. Never throws; thread-safe.
LaunchOutcome launch(const LaunchRequest& request, const MakeChecker& make_checker, unsigned host_threads = 0) noexcept;

}  // namespace moegen::cpu
