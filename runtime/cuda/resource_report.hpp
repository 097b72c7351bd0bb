// SPDX-License-Identifier: Apache-2.0
// Reads what ptxas -v says about each entry point.
#pragma once

#include <string_view>
#include <vector>

#include <moegen/engine.hpp>

namespace moegen::cuda {

/// One EntryResources for each "Compiling entry function" of `log`, in the order of the log. Spills of the device
/// functions that an entry calls count as its own. Lines that are not understood are skipped.
std::vector<EntryResources> parse_resource_report(std::string_view log);

/// The resources of `entry`, or null.
const EntryResources* find_resources(const std::vector<EntryResources>& resources, std::string_view entry) noexcept;

/// The line of `log` that a reader wants first: the first error, else the first line with text, else "no log".
std::string_view first_diagnostic(std::string_view log) noexcept;

}  // namespace moegen::cuda
