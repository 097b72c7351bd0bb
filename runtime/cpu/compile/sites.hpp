// SPDX-License-Identifier: Apache-2.0
// Sites: places in a kernel's text, numbered by the compiler and carried inside the object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moegen::cpu {

/// One step of the chain from a place outward through the functions it was inlined into.
struct Frame {
  std::string function;
  std::uint32_t line = 0;
};

/// The table of one program. Site 0 is the unknown place. As text: one line a site, from site 1, each a chain of
/// `line \t function \t`, innermost first.
class Sites {
 public:
  Sites() = default;
  Sites(std::string file_name, std::string_view table);
  /// Innermost frame first; empty for an unknown site.
  const std::vector<Frame>& frames(std::uint32_t site) const noexcept;
  /// "create_indices.cu:214 in place_step, from :391 in run"; "an unknown place".
  std::string describe(std::uint32_t site) const;

 private:
  std::string file_name_;
  std::vector<std::vector<Frame>> frames_;
};

}  // namespace moegen::cpu
