// SPDX-License-Identifier: Apache-2.0
// The artefact goes to standard output in one piece; everything said about it goes to standard error.
#pragma once

#include <exception>
#include <string_view>

namespace moegen::cli {

/// The reader of standard output went away ("moegen list | head -1"): nothing is left to say, and nothing is wrong.
class ReaderGone : public std::exception {};

/// Makes sure that descriptors 0-2 are open, so that no file opened later lands under them and receives our output,
/// and turns a broken pipe from a signal into a result of write(2). Call first in main().
void prepare_standard_streams();

/// Writes all of `text` to standard output. Throws: ReaderGone; cache-coded Error (exit 1) where it cannot be written.
void print(std::string_view text);

/// Writes one line "moegen: TEXT" to standard error; failing to do so is ignored.
void note(std::string_view text);

/// True if standard error is a terminal that understands a carriage return.
bool stderr_is_terminal();

}  // namespace moegen::cli
