// SPDX-License-Identifier: Apache-2.0
// What rows of floats are stored as: in their own dtype, or quantised with scales. One type of namespace kinds for each
// scheme (a kernel's `scheme_kind`); all have the same two steps, encode and store_scales.
//
// A thread encodes `vector` neighbouring elements at a time, which become one piece of 16 bytes, or of 8 where codes have
// four bits. Vectors of a row are numbered from its first column; groups of several vectors lie in neighbouring lanes of
// a warp, whose lanes all take part. Params: width, vector, scheme_kind, output_dtype, scale_dtype, column_scales,
// floor() (quantised ones).
#pragma once

#include "elements.cuh"
#include "group_magnitude.cuh"
#include "memory.cuh"
#include "quantize.cuh"
#include "types.cuh"

namespace moegen {

/// Where rows go.
struct RowOutput {
  void* rows;              // [R, width] codes or elements
  void* scales;            // as the scheme says
  float global;            // tensor: the scale; nvfp4: the factor of all scales
  uint64_t scales_stride;  // column_scales: elements between two rows of the transposed scales
};

/// The stride that a launch means: `stride`, or `num_rows` rounded up to 16 bytes of scales where it is 0.
template <class P>
MOEGEN_DEVICE uint64_t column_stride(int64_t stride, int64_t num_rows) {
  if constexpr (!P::column_scales)
    return 0;
  else
    return stride != 0 ? static_cast<uint64_t>(stride)
                       : round_up<uint64_t>(static_cast<uint64_t>(num_rows), 16 / sizeof(typename P::scale_dtype));
}

/// What the arguments of a launch say of it.
template <class P, class Args>
MOEGEN_DEVICE RowOutput row_output(const Args& args) {
  float global = 0.0f;
  if constexpr (P::scheme_kind::has_global) global = *args.global_scale;
  return {args.rows, args.scales, global, column_stride<P>(args.scales_stride, args.num_rows)};
}

/// One vector as it is stored.
struct Encoded {
  Vector16 codes;  // those of four bits fill half of it
  uint32_t scale;  // bits, in the low bytes
};

/// Number of vectors in a row.
template <class P>
constexpr uint32_t kVectorsOfRow = P::width / P::vector;

template <class P>
MOEGEN_DEVICE void store_codes(const RowOutput& output, uint64_t row, uint32_t vector, const Encoded& encoded) {
  constexpr uint32_t kBytes = P::scheme_kind::vector_bytes;
  char* pointer = static_cast<char*>(output.rows) + (row * kVectorsOfRow<P> + vector) * kBytes;
  if constexpr (kBytes == sizeof(Vector16))
    store(pointer, encoded.codes);
  else
    store(pointer, Vector8{encoded.codes.word[0], encoded.codes.word[1]});
}

namespace kinds {

/// Rows keep their dtype.
struct none {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return 0;
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    return {pack_elements<typename P::output_dtype>(value), 0};
  }
  template <class P>
  static MOEGEN_DEVICE void store_scales(const RowOutput&, uint64_t, uint32_t, const Encoded&) {}
};

/// e4m3 under one scale that comes with the launch. A scale that has no Quotient is divided by.
struct tensor {
  enum : bool { whole_row = false, has_global = true };
  enum : uint32_t { vector_bytes = 16 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return 0;
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput& output) {
    const float scale = output.global;
    Encoded encoded;
    if (has_quotient(scale)) {
      bound_values(value, 512.0f * scale);
      encode_e4m3(value, Quotient(scale), encoded.codes.word);
    } else {
      encode_e4m3(value, Divided{scale}, encoded.codes.word);
    }
    return encoded;
  }
  template <class P>
  static MOEGEN_DEVICE void store_scales(const RowOutput&, uint64_t, uint32_t, const Encoded&) {}
};

/// e4m3, a float32 scale a row: scales [R].
struct rowwise {
  enum : bool { whole_row = true, has_global = false };
  enum : uint32_t { vector_bytes = 16 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return float_bits(scale_of<448>(P::floor()));
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude& row, const RowOutput&) {
    Encoded encoded;
    encoded.scale = float_bits(quantize_float32<P>(value, row, encoded.codes.word));
    return encoded;
  }
  template <class P>
  static MOEGEN_DEVICE void store_scales(const RowOutput& output, uint64_t row, uint32_t vector,
                                         const Encoded& encoded) {
    if (vector == 0) static_cast<float*>(output.scales)[row] = bits_float(encoded.scale);
  }
};

/// e4m3, a scale for each 128 columns, the last of a row maybe fewer: scales [R, groups], or [groups, stride] with
/// column_scales; float32 or e8m0.
struct block128 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return sizeof(typename P::scale_dtype) == 4 ? float_bits(scale_of<448>(P::floor())) : e8m0_scale_of<448>(P::floor());
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    const Magnitude group = group_magnitude<128>(value);
    Encoded encoded;
    if constexpr (sizeof(typename P::scale_dtype) == 4)
      encoded.scale = float_bits(quantize_float32<P>(value, group, encoded.codes.word));
    else
      encoded.scale = quantize_e8m0<P>(value, group, encoded.codes.word);
    return encoded;
  }
  template <class P>
  static MOEGEN_DEVICE void store_scales(const RowOutput& output, uint64_t row, uint32_t vector,
                                         const Encoded& encoded) {
    constexpr uint32_t kLanes = 128 / P::vector, kGroups = ceil_div<uint32_t>(P::width, 128);
    if (vector % kLanes != 0) return;
    const uint64_t group = vector / kLanes;
    const uint64_t at = P::column_scales ? group * output.scales_stride + row : row * kGroups + group;
    if constexpr (sizeof(typename P::scale_dtype) == 4)
      static_cast<float*>(output.scales)[at] = bits_float(encoded.scale);
    else
      static_cast<uint8_t*>(output.scales)[at] = static_cast<uint8_t>(encoded.scale);
  }
};

/// e4m3, an e8m0 scale for each 32 columns, the last of a row maybe 16: scales [R, groups].
struct mxfp8 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return e8m0_scale_of<448>(P::floor());
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    Encoded encoded;
    encoded.scale = quantize_e8m0<P>(value, group_magnitude<32>(value), encoded.codes.word);
    return encoded;
  }
  template <class P>
  static MOEGEN_DEVICE void store_scales(const RowOutput& output, uint64_t row, uint32_t vector,
                                         const Encoded& encoded) {
    constexpr uint32_t kLanes = 32 / P::vector, kGroups = ceil_div<uint32_t>(P::width, 32);
    if (vector % kLanes == 0)
      static_cast<uint8_t*>(output.scales)[row * kGroups + vector / kLanes] = static_cast<uint8_t>(encoded.scale);
  }
};

/// Two e2m1 a byte, an e8m0 scale for each 32 columns: scales [R, width / 32].
struct mxfp4 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 8 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return e8m0_scale_of<6>(P::floor());
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    uint32_t word[2];
    const uint32_t scale = quantize_mxfp4<P>(value, group_magnitude_or_nan<32>(value), word);
    return {{{word[0], word[1]}}, scale};
  }
  template <class P>
  static MOEGEN_DEVICE void store_scales(const RowOutput& output, uint64_t row, uint32_t vector,
                                         const Encoded& encoded) {
    constexpr uint32_t kLanes = 32 / P::vector, kGroups = P::width / 32;
    if (vector % kLanes == 0)
      static_cast<uint8_t*>(output.scales)[row * kGroups + vector / kLanes] = static_cast<uint8_t>(encoded.scale);
  }
};

/// Two e2m1 a byte, an e4m3 scale for each 16 columns, all under one float32 factor: scales [R, width / 16].
struct nvfp4 {
  enum : bool { whole_row = false, has_global = true };
  enum : uint32_t { vector_bytes = 8 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return 0;
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput& output) {
    uint32_t word[2];
    const uint32_t scale = quantize_nvfp4(value, output.global, word);
    return {{{word[0], word[1]}}, scale};
  }
  template <class P>
  static MOEGEN_DEVICE void store_scales(const RowOutput& output, uint64_t row, uint32_t vector,
                                         const Encoded& encoded) {
    static_cast<uint8_t*>(output.scales)[row * kVectorsOfRow<P> + vector] = static_cast<uint8_t>(encoded.scale);
  }
};

}  // namespace kinds

/// Codes and scales of one vector.
template <class P>
MOEGEN_DEVICE void store_encoded(const RowOutput& output, uint64_t row, uint32_t vector, const Encoded& encoded) {
  store_codes<P>(output, row, vector, encoded);
  P::scheme_kind::template store_scales<P>(output, row, vector, encoded);
}

}  // namespace moegen
