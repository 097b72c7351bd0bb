// SPDX-License-Identifier: Apache-2.0
// Small kernels that show what the hardware does: one block each, shared memory in, bytes out. The same text runs on a
// GPU (tests/gpu/test_hardware_pins.cpp) and on the CPU target (tests/cpu/test_pins.cpp). Entries: tests/cpu/pins.cpp.
#pragma once

#include "../../../templates/core/types.cuh"

namespace moegen::pins {

struct Arguments {
  TensorMap map;
  const unsigned char* input;
  unsigned char* output;
};

/// Copies `input` to shared memory, or a pattern where there is none; shown to copies and tensor cores.
MOEGEN_DEVICE void fill(unsigned char* shared, const unsigned char* input, uint32_t bytes) {
  for (uint32_t i = thread_index(); i < bytes / 4; i += blockDim.x)
    reinterpret_cast<uint32_t*>(shared)[i] = input ? reinterpret_cast<const uint32_t*>(input)[i] : 0xEEEEEEEEu;
  fence_proxy_async();
  block_sync();
}

MOEGEN_DEVICE void dump(unsigned char* output, const unsigned char* shared, uint32_t bytes) {
  block_sync();
  for (uint32_t i = thread_index(); i < bytes / 4; i += blockDim.x)
    reinterpret_cast<uint32_t*>(output)[i] = reinterpret_cast<const uint32_t*>(shared)[i];
}

/// One tensor load of `bytes` to `offset`; dumps the `size` bytes from the begin of shared memory.
template <class... Index>
MOEGEN_DEVICE void load_tile(const Arguments& args, uint32_t offset, uint32_t bytes, uint32_t size, Index... index) {
  unsigned char* shared = dynamic_shared_tiles();
  uint64_t* barrier = reinterpret_cast<uint64_t*>(shared + size);
  if (thread_index() == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_fence_init();
  }
  fill(shared, nullptr, size);
  if (thread_index() == 0) {
    prefetch_tensor_map(args.map);
    mbarrier_arrive_expect(barrier, bytes);
    tensor_load(shared + offset, args.map, barrier, index...);
  }
  mbarrier_wait(barrier, 0);
  dump(args.output, shared, size);
}

/// One tensor store of the first `size` bytes of the input.
template <class... Index>
MOEGEN_DEVICE void store_tile(const Arguments& args, uint32_t size, Index... index) {
  unsigned char* shared = dynamic_shared_tiles();
  fill(shared, args.input, size);
  if (thread_index() == 0) {
    tensor_store(args.map, shared, index...);
    bulk_commit();
    bulk_wait<0>();
  }
}

/// Two operands in shared memory as `matrix_descriptor` takes them, and the steps of K.
struct Operands {
  uint32_t a, b;  // offsets
  Swizzle swizzle;
  uint32_t leading, stride;
  uint32_t step_a, step_b;  // bytes from one step of K to the next
  uint32_t steps;
};

/// The accumulators as 16-bit integers, in the order of rows.
template <uint32_t N>
MOEGEN_DEVICE void dump_accumulators(unsigned char* output, const float (&d)[N / 2]) {
  const uint32_t row = warp_index() * 16 + lane_index() / 4;
#pragma unroll
  for (uint32_t i = 0; i < N / 2; ++i) {
    const uint32_t at = (row + i / 2 % 2 * 8) * N + i / 4 * 8 + lane_index() % 4 * 2 + i % 2;
    reinterpret_cast<int16_t*>(output)[at] = static_cast<int16_t>(static_cast<int32_t>(d[i]));
  }
}

/// Products over the image of shared memory that the input is, onto small accumulators.
template <class Element, uint32_t N, bool InRegisters, bool TransposeA, bool TransposeB>
MOEGEN_DEVICE void multiply(const Arguments& args, uint32_t image_bytes, const Operands& operands) {
  unsigned char* shared = dynamic_shared_tiles();
  fill(shared, args.input, image_bytes);
  float d[N / 2];
  uint32_t registers[4];
#pragma unroll
  for (uint32_t i = 0; i < N / 2; ++i) d[i] = static_cast<float>((thread_index() * 5 + i * 3) % 17) - 8.0f;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) registers[i] = reinterpret_cast<const uint32_t*>(args.input)[thread_index() * 4 + i];
  const uint64_t a = matrix_descriptor(shared + operands.a, operands.swizzle, operands.leading, operands.stride);
  const uint64_t b = matrix_descriptor(shared + operands.b, operands.swizzle, operands.leading, operands.stride);
  wgmma_fence();
#pragma unroll 1
  for (uint32_t step = 0; step < operands.steps; ++step) {
    const uint64_t b_now = advance_descriptor(b, step * operands.step_b);
    if constexpr (InRegisters) {
      Wgmma<Element, N>::template multiply<TransposeA, TransposeB>(d, registers, b_now, true);
    } else {
      const uint64_t a_now = advance_descriptor(a, step * operands.step_a);
      Wgmma<Element, N>::template multiply<TransposeA, TransposeB>(d, a_now, b_now, true);
    }
  }
  wgmma_commit();
  wgmma_wait<0>();
  dump_accumulators<N>(args.output, d);
}

/// One mma.sync of registers that the input holds.
template <class Element>
MOEGEN_DEVICE void multiply_warp(const Arguments& args) {
  const uint32_t* input = reinterpret_cast<const uint32_t*>(args.input) + lane_index() * 8;
  const uint32_t a[4] = {input[0], input[1], input[2], input[3]}, b[2] = {input[4], input[5]};
  const float c[4] = {-3.0f, static_cast<float>(lane_index()), 5.0f, 0.0f};
  float d[4];
  mma(Element{}, d, a, b, c);
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i)
    reinterpret_cast<int16_t*>(args.output)[lane_index() * 4 + i] = static_cast<int16_t>(static_cast<int32_t>(d[i]));
}

/// Rows in an order of no pattern: 16-byte row `lane` * 5 mod 32.
MOEGEN_DEVICE unsigned char* scattered_row(unsigned char* shared) { return shared + lane_index() * 5 % 32 * 16; }

template <bool Transpose, uint32_t Count>
MOEGEN_DEVICE void load_matrices(const Arguments& args) {
  unsigned char* shared = dynamic_shared_tiles();
  fill(shared, args.input, 512);
  uint32_t registers[Count];
  load_matrix<Transpose>(registers, scattered_row(shared));
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i)
    reinterpret_cast<uint32_t*>(args.output)[lane_index() * Count + i] = registers[i];
}

template <bool Transpose, uint32_t Count>
MOEGEN_DEVICE void store_matrices(const Arguments& args) {
  unsigned char* shared = dynamic_shared_tiles();
  fill(shared, nullptr, 512);
  uint32_t registers[Count];
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i)
    registers[i] = reinterpret_cast<const uint32_t*>(args.input)[lane_index() * Count + i];
  store_matrix<Transpose>(scattered_row(shared), registers);
  dump(args.output, shared, 512);
}

/// Conversions from float, by number.
template <uint32_t Which>
MOEGEN_DEVICE uint32_t narrow(float low, float high) {
  if constexpr (Which == 0) return pack_bfloat16(low, high);
  if constexpr (Which == 1) return pack_float16(low, high);
  if constexpr (Which == 2) return pack_e4m3(low, high);
  if constexpr (Which == 3) return pack_e5m2(low, high);
  if constexpr (Which == 4) return pack_e2m1(low, high);
  if constexpr (Which == 5) return pack_e8m0_up(low, high);
}

/// Each of `count` floats of the input beside its negative.
template <uint32_t Which>
MOEGEN_DEVICE void narrow_table(const Arguments& args, uint32_t count) {
  for (uint32_t i = thread_index(); i < count; i += blockDim.x) {
    const uint32_t bits = reinterpret_cast<const uint32_t*>(args.input)[i];
    reinterpret_cast<uint32_t*>(args.output)[i] = narrow<Which>(bits_float(bits), bits_float(bits ^ 0x80000000u));
  }
}

/// A sum of hashes over all floats whose bits are a multiple of `step`, one of each thread.
template <uint32_t Which>
MOEGEN_DEVICE void narrow_digest(const Arguments& args, uint32_t step) {
  uint64_t sum = 0;
  for (uint64_t bits = static_cast<uint64_t>(thread_index()) * step; bits >> 32 == 0;
       bits += uint64_t{blockDim.x} * step) {
    const uint32_t low = static_cast<uint32_t>(bits);
    sum += (narrow<Which>(bits_float(low), bits_float(low ^ 0x5A5A5A5Au)) + 1) * (bits * 0x9E3779B97F4A7C15ul + 1);
  }
  reinterpret_cast<uint64_t*>(args.output)[thread_index()] = sum;
}

/// The floats of all codes of a narrow type: 0 = e4m3, 1 = e5m2, 2 = e2m1 pairs, 3 = e8m0.
template <uint32_t Which>
MOEGEN_DEVICE void widen_all(const Arguments& args) {
  for (uint32_t code = thread_index(); code < 256; code += blockDim.x) {
    FloatPair pair = {};
    if constexpr (Which == 0) pair = unpack_e4m3(code | code << 8);
    if constexpr (Which == 1) pair = unpack_e5m2(code | code << 8);
    if constexpr (Which == 2) pair = unpack_e2m1(code);
    if constexpr (Which == 3) pair.low = pair.high = to_float(float8_e8m0fnu{static_cast<uint8_t>(code)});
    reinterpret_cast<uint32_t*>(args.output)[code] = float_bits(pair.low);
    reinterpret_cast<uint32_t*>(args.output)[256 + code] = float_bits(pair.high);
  }
}

/// The floats of all float16, as a digest of each thread's.
MOEGEN_DEVICE void widen_float16(const Arguments& args) {
  uint64_t sum = 0;
  for (uint64_t code = thread_index(); code < 65536; code += blockDim.x)
    sum += (float_bits(to_float(float16{static_cast<uint16_t>(code)})) + 1ul) * (code * 0x9E3779B97F4A7C15ul + 1);
  reinterpret_cast<uint64_t*>(args.output)[thread_index()] = sum;
}

}  // namespace moegen::pins
