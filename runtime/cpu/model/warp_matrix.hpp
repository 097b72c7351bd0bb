// SPDX-License-Identifier: Apache-2.0
// WarpMatrix: where the lanes of a warp meet for mma.sync, ldmatrix and stmatrix. Each leaves its operands; the last to
// come computes for all, and each takes its results.
#pragma once

#include <array>
#include <cstdint>

#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

/// What all lanes must ask for alike.
struct MatrixRequest {
  enum class Kind : std::uint8_t { multiply, load, store };

  Kind kind = Kind::multiply;
  std::uint32_t element_or_count = 0;  ///< element of a product, number of matrices of a move
  bool transpose = false;
  bool operator==(const MatrixRequest&) const = default;
};

struct MatrixLane {
  std::array<std::uint32_t, 4> a{};  ///< registers of A; of a move
  std::array<std::uint32_t, 2> b{};
  std::array<float, 4> c{};            ///< then d
  std::array<std::uint32_t, 4> row{};  ///< 16 bytes of a matrix row
};

struct WarpMatrix {
  std::uint32_t arrived = 0;  ///< mask of lanes
  MatrixRequest request;
  std::array<MatrixLane, 32> lanes;                   ///< of the meeting that gathers
  std::array<std::array<MatrixLane, 32>, 2> results;  ///< of the last two, for lanes that are slow to take them
  std::uint32_t meetings = 0;
  WaitList waiters;
};

// What the last lane computes, in place; pure.
void multiply_warp(std::array<MatrixLane, 32>& lanes, std::uint32_t element);
/// From `row` of lane 8 * m + r to register m of all lanes, and back.
void rows_to_registers(std::array<MatrixLane, 32>& lanes, std::uint32_t count, bool transpose);
void registers_to_rows(std::array<MatrixLane, 32>& lanes, std::uint32_t count, bool transpose);

}  // namespace moegen::cpu
