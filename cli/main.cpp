// SPDX-License-Identifier: Apache-2.0
// Entry of the moegen command line: every way to end becomes an exit code and at most a few lines on standard error.
#include <cstdlib>
#include <exception>
#include <string>

#include <fmt/core.h>

#include <moegen/error.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/interrupt.hpp"
#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::config: return kBadUsage;
    case ErrorCode::unsupported: return kUnsupported;
    case ErrorCode::cache:
    case ErrorCode::driver:
    case ErrorCode::kernel: return kCheckFailed;
    case ErrorCode::compile:
    case ErrorCode::internal: return kInternal;
  }
  return kInternal;
}

int report_bug(std::string_view message) {
  note(message);
  note("this is a bug in moegen; please report it with the output of 'moegen doctor'");
  return kInternal;
}

/// Templates that the user is working on may be wrong without moegen being so.
int report_refused_source(const CompileError& error) {
  if (!error.log().empty()) note(error.log());
  if (std::getenv("MOEGEN_TEMPLATE_DIR") == nullptr) return report_bug(error.what());
  note(error.what());
  return kCheckFailed;
}

int run_guarded(const Arguments& arguments) {
  try {
    const int code = run_command_line(arguments);
    check_interrupt();  // one that came while it could not be obeyed any more
    return code;
  } catch (const ReaderGone&) {
    return kOk;
  } catch (const Interrupted& interrupted) {
    return interrupted.exit_code();
  } catch (const CompileError& error) {
    return report_refused_source(error);
  } catch (const Error& error) {
    const int code = exit_code_of(error.code());
    if (code == kInternal) return report_bug(error.what());
    note(error.what());
    return code;
  } catch (const std::exception& error) {
    return report_bug(error.what());
  }
}

}  // namespace
}  // namespace moegen::cli

int main(int argc, char** argv) {
  using namespace moegen::cli;
  prepare_standard_streams();
  install_interrupt_handlers();
  return run_guarded(Arguments(argv + (argc > 0 ? 1 : 0), argv + argc));
}
