// SPDX-License-Identifier: Apache-2.0
// The exit codes of the moegen command line. docs/cli.md explains them to users.
#pragma once

namespace moegen::cli {

inline constexpr int kOk = 0;
inline constexpr int kCheckFailed = 1;  ///< a verification, a cache or pack operation, a driver call or output failed
inline constexpr int kBadUsage = 2;     ///< the command line, the config or the environment is wrong
inline constexpr int kUnsupported = 3;  ///< well-formed, but not something this version or machine can do
inline constexpr int kInternal = 70;    ///< our bug (EX_SOFTWARE of sysexits.h)
// 128 + the signal's number where a signal ended the work: 130 for SIGINT (support/interrupt.hpp).

}  // namespace moegen::cli
