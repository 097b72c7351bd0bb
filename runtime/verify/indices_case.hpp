// SPDX-License-Identifier: Apache-2.0
// One case of create_indices: ids of a certain kind, run on a target and compared exactly with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>
#include <moegen/kernel.hpp>

namespace moegen::verify {

/// How the ids of a case are drawn.
enum class IdPattern {
  uniform,     ///< every expert alike
  zipf,        ///< expert e with weight 1 / (e + 1)
  one_expert,  ///< all pairs on one expert
  hostile,     ///< a third -1, out of range, or the extremes of the dtype; the rest crowded on few experts
  dropped,     ///< nothing that this rank keeps
};

std::string_view to_string(IdPattern pattern) noexcept;
std::span<const IdPattern> all_id_patterns() noexcept;

struct IndicesCase {
  std::int64_t num_pairs = 0;
  IdPattern pattern = IdPattern::uniform;
  std::uint64_t seed = 1;
  std::string name() const;
};

/// Ids as the config's dtype holds them.
std::vector<std::int64_t> make_ids(const ConfigFields& fields, const IndicesCase& indices_case);

/// Runs `kernel` (create_indices of `config`) on its target. Returns the first difference, or nothing.
std::optional<std::string> run_case(const Kernel& kernel, const Config& config, const IndicesCase& indices_case);

}  // namespace moegen::verify
