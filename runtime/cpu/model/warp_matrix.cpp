// SPDX-License-Identifier: Apache-2.0
#include "cpu/model/warp_matrix.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/core.h>

#include "cpu/model/async_state.hpp"
#include "cpu/model/calls.hpp"
#include "cpu/model/copies.hpp"
#include "cpu/model/tensor_core.hpp"

namespace moegen::cpu {
namespace {

constexpr std::uint32_t kAllLanes = 0xFFFFFFFF;
constexpr std::uint32_t kRows = 16, kColumns = 8, kMostDepth = 32;

/// Element `column` of a row of eight 16-bit elements.
std::uint16_t element_of(const MatrixLane& lane, std::uint32_t column) noexcept {
  return static_cast<std::uint16_t>(lane.row[column / 2] >> column % 2 * 16);
}

void set_element(MatrixLane& lane, std::uint32_t column, std::uint32_t value) noexcept {
  const std::uint32_t shift = column % 2 * 16;
  lane.row[column / 2] = (lane.row[column / 2] & ~(0xFFFFu << shift)) | value << shift;
}

std::string describe_wait(const Thread& thread) {
  return fmt::format("{}: lanes {:#010x} of the warp have arrived", thread.wait.operation,
                     async_state(*thread.block).warps[thread.index / 32].arrived);
}

void compute(WarpMatrix& warp) {
  const MatrixRequest& request = warp.request;
  if (request.kind == MatrixRequest::Kind::multiply) multiply_warp(warp.lanes, request.element_or_count);
  if (request.kind == MatrixRequest::Kind::load)
    rows_to_registers(warp.lanes, request.element_or_count, request.transpose);
  if (request.kind == MatrixRequest::Kind::store)
    registers_to_rows(warp.lanes, request.element_or_count, request.transpose);
}

WarpMatrix& warp_of(const Thread& thread, const Call& call) {
  call.require(thread.index / 32 * 32 + 32 <= thread.block->num_threads, "the warp has fewer than 32 threads");
  auto& warps = async_state(*thread.block).warps;
  if (warps.empty()) warps.resize(thread.block->num_threads / 32);
  return warps[thread.index / 32];
}

/// Leaves the lane's operands, waits for all lanes, and returns its results.
const MatrixLane& meet(const MatrixRequest& request, const MatrixLane& operands, const Call& call) {
  Scheduler& scheduler = Scheduler::current();
  const Thread& thread = scheduler.running();
  WarpMatrix& warp = warp_of(thread, call);
  if (warp.arrived == 0) warp.request = request;
  if (!(warp.request == request))
    call.fail(CpuFinding::divergence,
              fmt::format("{}: lanes of a warp ask for different matrix operations", call.operation));
  const std::uint32_t lane = thread.index % 32, slot = warp.meetings % 2;
  warp.lanes[lane] = operands;
  warp.arrived |= 1u << lane;
  if (warp.arrived == kAllLanes) {
    compute(warp);
    warp.results[slot] = warp.lanes;
    warp.arrived = 0;
    ++warp.meetings;
    scheduler.wake_all(warp.waiters);
  } else {
    const Wait wait{
        .operation = call.operation, .object = 0, .detail = 0, .site = call.site, .describe = describe_wait};
    scheduler.park(warp.waiters, wait);
  }
  return warp.results[slot][lane];
}

/// The lane's 16-byte row if it names one of the `count` matrices; null else.
char* row_of_running(const void* row, std::uint32_t count, Access access, const Call& call) {
  Scheduler& scheduler = Scheduler::current();
  if (scheduler.running().index % 32 >= 8 * count) return nullptr;
  const SharedRange range = find_own_shared(row, 16, call);
  call.require_aligned(range.data(), 16, "row");
  if (Checker* checker = scheduler.checker())
    checker->access(scheduler.running(), row, 16, 16, access, Scope::block, call.site);
  return range.data();
}

void check_count(std::uint32_t count, const Call& call) {
  call.require(count == 1 || count == 2 || count == 4, "the number of matrices is not 1, 2 or 4");
}

}  // namespace

void multiply_warp(std::array<MatrixLane, 32>& lanes, std::uint32_t element) {
  const auto type = static_cast<MoegenCpuElement>(element);
  const std::uint32_t per_register = 4 / bytes_of(type), depth = 8 * per_register;
  alignas(32) float a[kRows * kMostDepth], b[kMostDepth * kColumns], c[kRows * kColumns];
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t group = lane / 4, in_group = lane % 4;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t k = (i / 2 * 4 + in_group) * per_register;
      widen_elements(&lanes[lane].a[i], per_register, type, a + std::size_t{group + i % 2 * 8} * depth + k);
      c[(group + i / 2 * 8) * kColumns + in_group * 2 + i % 2] = lanes[lane].c[i];
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      float values[4];
      widen_elements(&lanes[lane].b[i], per_register, type, values);
      for (std::uint32_t e = 0; e < per_register; ++e)
        b[((i * 4 + in_group) * per_register + e) * kColumns + group] = values[e];
    }
  }
  multiply({.a = a, .b = b, .c = c, .rows = kRows, .width = kColumns, .depth = depth});
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t i = 0; i < 4; ++i)
      lanes[lane].c[i] = c[(lane / 4 + i / 2 * 8) * kColumns + lane % 4 * 2 + i % 2];
}

void rows_to_registers(std::array<MatrixLane, 32>& lanes, std::uint32_t count, bool transpose) {
  for (std::uint32_t m = 0; m < count; ++m) {
    const MatrixLane* rows = &lanes[std::size_t{8} * m];
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t row = lane / 4, column = lane % 4 * 2;
      const std::uint32_t low = transpose ? element_of(rows[column], row) : element_of(rows[row], column);
      const std::uint32_t high = transpose ? element_of(rows[column + 1], row) : element_of(rows[row], column + 1);
      lanes[lane].a[m] = low | high << 16;
    }
  }
}

void registers_to_rows(std::array<MatrixLane, 32>& lanes, std::uint32_t count, bool transpose) {
  for (std::uint32_t m = 0; m < count; ++m) {
    MatrixLane* rows = &lanes[std::size_t{8} * m];
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t row = lane / 4, column = lane % 4 * 2 + i;
        const std::uint32_t value = lanes[lane].a[m] >> 16 * i & 0xFFFF;
        transpose ? set_element(rows[column], row, value) : set_element(rows[row], column, value);
      }
    }
  }
}

}  // namespace moegen::cpu

using namespace moegen::cpu;

extern "C" {

void moegen_cpu_mma(float* d, const unsigned int* a, const unsigned int* b, const float* c, unsigned int element,
                    unsigned int site) {
  Scheduler::current().preemption_point();
  MatrixLane lane;
  std::copy(a, a + 4, lane.a.begin());
  std::copy(b, b + 2, lane.b.begin());
  std::copy(c, c + 4, lane.c.begin());
  const MatrixLane& result = meet({MatrixRequest::Kind::multiply, element, false}, lane, {"mma.sync", site});
  std::copy(result.c.begin(), result.c.end(), d);
}

void moegen_cpu_load_matrix(unsigned int* registers, const void* row, unsigned int count, unsigned int transpose,
                            unsigned int site) {
  const Call call{"ldmatrix", site};
  Scheduler::current().preemption_point();
  check_count(count, call);
  MatrixLane lane;
  if (const char* from = row_of_running(row, count, Access::read, call)) std::memcpy(lane.row.data(), from, 16);
  const MatrixLane& result = meet({MatrixRequest::Kind::load, count, transpose != 0}, lane, call);
  std::copy(result.a.begin(), result.a.begin() + count, registers);
}

void moegen_cpu_store_matrix(void* row, const unsigned int* registers, unsigned int count, unsigned int transpose,
                             unsigned int site) {
  const Call call{"stmatrix", site};
  Scheduler::current().preemption_point();
  check_count(count, call);
  MatrixLane lane;
  std::copy(registers, registers + count, lane.a.begin());
  const MatrixLane& result = meet({MatrixRequest::Kind::store, count, transpose != 0}, lane, call);
  if (char* to = row_of_running(row, count, Access::write, call)) std::memcpy(to, result.row.data(), 16);
}

}  // extern "C"
