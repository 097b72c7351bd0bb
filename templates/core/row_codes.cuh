// SPDX-License-Identifier: Apache-2.0
// What rows of floats are stored as: in their own dtype, or quantised with scales. One type of namespace kinds for each
// scheme (a kernel's `scheme_kind`), which encodes a vector.
//
// A thread encodes `vector` neighbouring elements at a time, which become one piece of 16 bytes, or of 8 where codes
// have four bits. Vectors of a row are numbered from its first column; groups of several vectors lie in neighbouring
// lanes of a warp, whose lanes all take part. Params: width, vector, scheme_kind, output_dtype, scale_dtype,
// column_scales, floor() (quantised ones).
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
  enum : uint32_t { vector_bytes = 16, group = 0 };
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return 0;
  }
  template <class P>
  static MOEGEN_DEVICE Encoded encode(float (&value)[P::vector], const Magnitude&, const RowOutput&) {
    return {pack_elements<typename P::output_dtype>(value), 0};
  }
};

/// e4m3 under one scale that comes with the launch. A scale that has no Quotient is divided by.
struct tensor {
  enum : bool { whole_row = false, has_global = true };
  enum : uint32_t { vector_bytes = 16, group = 0 };
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
};

/// e4m3, a float32 scale a row: scales [R].
struct rowwise {
  enum : bool { whole_row = true, has_global = false };
  enum : uint32_t { vector_bytes = 16, group = 0 };
  template <class P>
  static constexpr uint32_t scale_bytes = 4;
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
};

/// e4m3, a scale for each 128 columns, the last of a row maybe fewer: scales [R, groups], or [groups, stride] with
/// column_scales; float32 or e8m0.
struct block128 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16, group = 128 };
  template <class P>
  static constexpr uint32_t scale_bytes = sizeof(typename P::scale_dtype);
  template <class P>
  static MOEGEN_DEVICE uint32_t scale_of_zeros() {
    return sizeof(typename P::scale_dtype) == 4 ? float_bits(scale_of<448>(P::floor()))
                                                : e8m0_scale_of<448>(P::floor());
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
};

/// e4m3, an e8m0 scale for each 32 columns, the last of a row maybe 16: scales [R, groups].
struct mxfp8 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 16, group = 32 };
  template <class P>
  static constexpr uint32_t scale_bytes = 1;
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
};

/// Two e2m1 a byte, an e8m0 scale for each 32 columns: scales [R, width / 32].
struct mxfp4 {
  enum : bool { whole_row = false, has_global = false };
  enum : uint32_t { vector_bytes = 8, group = 32 };
  template <class P>
  static constexpr uint32_t scale_bytes = 1;
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
};

/// Two e2m1 a byte, an e4m3 scale for each 16 columns, all under one float32 factor: scales [R, width / 16].
struct nvfp4 {
  enum : bool { whole_row = false, has_global = true };
  enum : uint32_t { vector_bytes = 8, group = 16 };
  template <class P>
  static constexpr uint32_t scale_bytes = 1;
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
};

}  // namespace kinds

/// Vectors that share a scale, and scales of a row. Schemes with groups of columns alone have them.
template <class P>
constexpr uint32_t kVectorsOfScale = P::scheme_kind::group / P::vector;
template <class P>
constexpr uint32_t kScalesOfRow = ceil_div<uint32_t>(P::width, P::scheme_kind::group);

/// Stores the bits of a scale, of `scale_bytes` bytes, as element `index` of all scales.
template <class P>
MOEGEN_DEVICE void store_scale(const RowOutput& output, uint64_t index, uint32_t scale) {
  if constexpr (P::scheme_kind::template scale_bytes<P> == 4)
    static_cast<uint32_t*>(output.scales)[index] = scale;
  else
    static_cast<uint8_t*>(output.scales)[index] = static_cast<uint8_t>(scale);
}

/// The scale that a vector is the first of, if it is.
template <class P>
MOEGEN_DEVICE void store_scales(const RowOutput& output, uint64_t row, uint32_t vector, const Encoded& encoded) {
  if constexpr (P::scheme_kind::whole_row) {
    if (vector == 0) store_scale<P>(output, row, encoded.scale);
  } else if constexpr (P::scheme_kind::group != 0) {
    if (vector % kVectorsOfScale<P> != 0) return;
    const uint64_t group = vector / kVectorsOfScale<P>;
    const uint64_t at = P::column_scales ? group * output.scales_stride + row : row * kScalesOfRow<P> + group;
    store_scale<P>(output, at, encoded.scale);
  }
}

/// Codes and scales of one vector.
template <class P>
MOEGEN_DEVICE void store_encoded(const RowOutput& output, uint64_t row, uint32_t vector, const Encoded& encoded) {
  store_codes<P>(output, row, vector, encoded);
  store_scales<P>(output, row, vector, encoded);
}

}  // namespace moegen
