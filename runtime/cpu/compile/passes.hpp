// SPDX-License-Identifier: Apache-2.0
// Passes: what turns the device code that Clang emits into host code for the model. LLVM IR only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace llvm {
class DILocation;
class DebugLoc;
class Module;
}  // namespace llvm

namespace moegen::cpu {

inline constexpr std::string_view kEntryPrefix = "moegen_cpu_entry_";         ///< of thunks: void (void** parameters)
inline constexpr std::string_view kConstantsSymbol = "moegen_cpu_constants";  ///< array of {address, size}

/// Numbers places of the kernel's text as passes meet them.
class SiteTable {
 public:
  /// Places in files other than `kernel_file` (the prelude, the thunks) are left out of chains.
  explicit SiteTable(std::string kernel_file) : kernel_file_(std::move(kernel_file)) {}
  /// The number of the chain that starts at `location`; 0 if nothing of it lies in the kernel's text.
  std::uint32_t number_of(const llvm::DebugLoc& location);
  /// True if the innermost place is in the kernel's text.
  bool in_kernel(const llvm::DebugLoc& location) const;
  /// In the form that Sites reads.
  std::string text() const;

 private:
  std::string chain_of(const llvm::DILocation* location) const;
  std::string kernel_file_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<const std::string*> chains_;  ///< keys of numbers_, by number
};

/// Where shared variables lie in a block's shared memory.
struct SharedLayout {
  std::uint32_t static_bytes = 0;
  std::uint32_t dynamic_offset = 0;  ///< static_bytes rounded up to the alignment of the dynamic arrays, at least 16
};

/// Errors about instructions in the text that are a GPU's, one a line; empty if there are none.
std::string errors_about_assembly(const llvm::Module& module);

/// Makes everything but the thunks private to the module, tells LLVM what the calls of the prelude do, and asks for
/// every function to be inlined, so that places have whole chains.
void prepare(llvm::Module& module);

/// Threads of a block that `__launch_bounds__` of each of `entries` allows; 0 where the text does not say. Before
/// lower_shared, with which the annotations go.
std::vector<std::uint32_t> read_launch_bounds(const llvm::Module& module, const std::vector<std::string>& entries);

/// Replaces `__shared__` variables by addresses in the block's shared memory.
SharedLayout lower_shared(llvm::Module& module);

/// Replaces calls of moegen_cpu_site() by numbers.
void resolve_sites(llvm::Module& module, SiteTable& sites);

/// Puts a call of moegen_cpu_access() before every access of the kernel's text to memory that is not the thread's own.
/// Runs after inlining and the promotion of variables to registers, and before anything that merges accesses.
void insert_access_calls(llvm::Module& module, SiteTable& sites);

/// The last changes before code is generated: contexts come from the stack pointer; no access to memory other than the
/// stack counts on an alignment (a misaligned address is for the checks to tell, not a host fault); the constants of
/// the text are listed under kConstantsSymbol, and their number is returned.
std::uint32_t finish(llvm::Module& module);

}  // namespace moegen::cpu
