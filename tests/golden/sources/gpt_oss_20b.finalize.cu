// SPDX-License-Identifier: Apache-2.0
// finalize of gpt_oss_20b for sm_90a, written by moegen.

// ---- core/types.cuh --------------------------------------------------------------------------------------
// Words that every template uses: fixed-width integers, storage types, and what a device function is.

// A kernel's text includes nothing, so the names of <cstdint> are declared here; the same types as the host's on LP64.
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;

#define MOEGEN_DEVICE __device__ __forceinline__

namespace moegen {

/// An index that stands for "none": a dropped pair, an unused row.
enum : uint32_t { kNone = 0xFFFFFFFFu };

/// Storage of 16-bit floats; arithmetic is done in float.
struct bfloat16 {
  uint16_t bits;
};
struct float16 {
  uint16_t bits;
};

/// 8 bytes that move in one access.
struct alignas(8) Vector8 {
  uint32_t word[2];
};

/// 16 bytes that move in one access.
struct alignas(16) Vector16 {
  uint32_t word[4];
};

template <class T>
MOEGEN_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
MOEGEN_DEVICE constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

template <class T>
MOEGEN_DEVICE constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}

template <class T>
MOEGEN_DEVICE constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

}  // namespace moegen

// ---- core/bits.cuh ---------------------------------------------------------------------------------------
// Reinterpretation and bit counting.


namespace moegen {

MOEGEN_DEVICE uint32_t float_bits(float value) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_bit_cast(uint32_t, value);
#else
  uint32_t bits;
  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#endif
}

MOEGEN_DEVICE float bits_float(uint32_t bits) {
#ifdef MOEGEN_TARGET_CPU
  return __builtin_bit_cast(float, bits);
#else
  float value;
  asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
  return value;
#endif
}

/// Number of set bits.
MOEGEN_DEVICE uint32_t popcount(uint32_t bits) {
#ifdef MOEGEN_TARGET_CPU
  return static_cast<uint32_t>(__builtin_popcount(bits));
#else
  uint32_t count;
  asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
  return count;
#endif
}

}  // namespace moegen

// ---- core/convert.cuh ------------------------------------------------------------------------------------
// float <-> storage types, by the hardware's rules: to nearest even, NaN to the canonical NaN.


namespace moegen {

MOEGEN_DEVICE float to_float(float value) { return value; }

MOEGEN_DEVICE float to_float(bfloat16 value) { return bits_float(static_cast<uint32_t>(value.bits) << 16); }

MOEGEN_DEVICE float to_float(float16 value) {
#ifdef MOEGEN_TARGET_CPU
  if ((value.bits & 0x7FFFu) > 0x7C00u) return bits_float(0x7FFFFFFFu);
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
#else
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#endif
}

/// Two floats rounded to bfloat16: `low` in bits 0..15, `high` in 16..31. sm_80 up.
MOEGEN_DEVICE uint32_t pack_bfloat16(float low, float high) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::float_to_bfloat16(low) | static_cast<uint32_t>(cpu::float_to_bfloat16(high)) << 16;
#else
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

/// Two floats rounded to float16: `low` in bits 0..15, `high` in 16..31. sm_80 up.
MOEGEN_DEVICE uint32_t pack_float16(float low, float high) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::float_to_float16(low) | static_cast<uint32_t>(cpu::float_to_float16(high)) << 16;
#else
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

/// Two floats rounded to the type of the first argument.
MOEGEN_DEVICE uint32_t pack_pair(bfloat16, float low, float high) { return pack_bfloat16(low, high); }
MOEGEN_DEVICE uint32_t pack_pair(float16, float low, float high) { return pack_float16(low, high); }

}  // namespace moegen

// ---- core/memory.cuh -------------------------------------------------------------------------------------
// Global memory: accesses of 16 and 8 bytes.


namespace moegen {

/// Loads 16 bytes that nothing writes while the kernel runs. `pointer` is 16-byte aligned.
MOEGEN_DEVICE Vector16 load_constant(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return *static_cast<const Vector16*>(pointer);
#else
  Vector16 v;
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
      : "l"(pointer));
  return v;
#endif
}

/// 8 bytes that nothing writes while the kernel runs. `pointer` is 8-byte aligned.
MOEGEN_DEVICE Vector8 load_constant8(const void* pointer) {
#ifdef MOEGEN_TARGET_CPU
  return *static_cast<const Vector8*>(pointer);
#else
  Vector8 v;
  asm("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(pointer));
  return v;
#endif
}

/// Stores 8 bytes. `pointer` is 8-byte aligned.
MOEGEN_DEVICE void store(void* pointer, const Vector8& v) {
#ifdef MOEGEN_TARGET_CPU
  *static_cast<Vector8*>(pointer) = v;
#else
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(pointer), "r"(v.word[0]), "r"(v.word[1]) : "memory");
#endif
}

/// Stores 16 bytes. `pointer` is 16-byte aligned.
MOEGEN_DEVICE void store(void* pointer, const Vector16& v) {
#ifdef MOEGEN_TARGET_CPU
  *static_cast<Vector16*>(pointer) = v;
#else
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
#endif
}

}  // namespace moegen

// ---- core/elements.cuh -----------------------------------------------------------------------------------
// Neighbouring elements of a row as they lie in memory, in 16-byte pieces, and as floats.


namespace moegen {

/// `Count` elements of type T (float, bfloat16, float16).
template <class T, uint32_t Count>
struct Elements {
  static constexpr uint32_t kPieces = Count * sizeof(T) / sizeof(Vector16);
  static_assert(kPieces * sizeof(Vector16) == Count * sizeof(T), "whole 16-byte pieces");
  Vector16 piece[kPieces];

  /// Element `index`, a constant after unrolling.
  MOEGEN_DEVICE float operator[](uint32_t index) const {
    if constexpr (sizeof(T) == 4) {
      return bits_float(piece[index / 4].word[index % 4]);
    } else {
      const uint32_t word = piece[index / 8].word[index % 8 / 2];
      return to_float(T{static_cast<uint16_t>(index % 2 == 0 ? word & 0xFFFFu : word >> 16)});
    }
  }
};

/// The elements from number `first` of `base` on, whose address is a multiple of 16. Nothing writes them meanwhile.
template <class T, uint32_t Count>
MOEGEN_DEVICE Elements<T, Count> load_elements(const void* base, uint64_t first) {
  const char* pointer = static_cast<const char*>(base) + first * sizeof(T);
  Elements<T, Count> elements;
#pragma unroll
  for (uint32_t i = 0; i < Elements<T, Count>::kPieces; ++i)
    elements.piece[i] = load_constant(pointer + i * sizeof(Vector16));
  return elements;
}

/// 16 bytes of elements of type T, rounded from `value`.
template <class T>
MOEGEN_DEVICE Vector16 pack_elements(const float (&value)[16 / sizeof(T)]) {
  Vector16 packed;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4)
      packed.word[i] = float_bits(value[i]);
    else
      packed.word[i] = pack_pair(T{}, value[2 * i], value[2 * i + 1]);
  }
  return packed;
}

}  // namespace moegen

// ---- core/shared.cuh -------------------------------------------------------------------------------------
// Shared memory and the barrier of a block.


namespace moegen {

/// All threads of the block have arrived, and what they wrote to shared and global memory is visible to each other.
MOEGEN_DEVICE void block_sync() {
#ifdef MOEGEN_TARGET_CPU
  cpu::block_sync(0);
#else
  asm volatile("bar.sync 0;" ::: "memory");
#endif
}

/// The block's dynamic shared memory, 16-byte aligned.
MOEGEN_DEVICE unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char moegen_dynamic_shared[];
  return moegen_dynamic_shared;
}

/// Adds `value` to a word of shared memory; block scope, no ordering.
MOEGEN_DEVICE void shared_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  cpu::shared_add(word, value);
#else
  asm volatile(
      "red.relaxed.cta.shared::cta.add.u32 [%0], %1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(word))),
      "r"(value)
      : "memory");
#endif
}

}  // namespace moegen

// ---- core/thread.cuh -------------------------------------------------------------------------------------
// Where a thread is: in its warp, block, cluster and grid.


namespace moegen {

enum : uint32_t { kWarpSize = 32, kFullMask = 0xFFFFFFFFu };

MOEGEN_DEVICE uint32_t thread_index() { return threadIdx.x; }
MOEGEN_DEVICE uint32_t block_index() { return blockIdx.x; }
MOEGEN_DEVICE uint32_t num_blocks() { return gridDim.x; }
MOEGEN_DEVICE uint32_t lane_index() { return threadIdx.x % kWarpSize; }
MOEGEN_DEVICE uint32_t warp_index() { return threadIdx.x / kWarpSize; }

}  // namespace moegen

// ---- core/grid.cuh ---------------------------------------------------------------------------------------
// Agreement between all blocks of a grid through words in global memory, and dependent launch.


namespace moegen {

/// Adds to a word of global memory and returns its old value; device scope, acquire and release.
MOEGEN_DEVICE uint32_t global_add(uint32_t* word, uint32_t value) {
#ifdef MOEGEN_TARGET_CPU
  return cpu::global_add(word, value);
#else
  uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
  return old;
#endif
}

/// Waits until `*word` is at least `least`, which some other block will make it; device scope, acquire.
MOEGEN_DEVICE void wait_at_least(const uint32_t* word, uint32_t least) {
#ifdef MOEGEN_TARGET_CPU
  cpu::wait_at_least(word, least);
#else
  uint32_t seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
  } while (seen < least);
#endif
}

/// All threads of all blocks have arrived, and what they wrote is visible to each other. `arrived` counts blocks from
/// 0; every block of the grid must be resident (cooperative launch).
MOEGEN_DEVICE void grid_sync(uint32_t* arrived) {
  block_sync();
  if (thread_index() == 0) {
    global_add(arrived, 1);
    wait_at_least(arrived, num_blocks());
  }
  block_sync();
}

/// Waits until the kernels this one depends on have ended and their writes are visible. Nothing that an earlier kernel
/// may write is read, and nothing that it may read is written, before this. sm_90 up; elsewhere launches are in order.
MOEGEN_DEVICE void wait_for_dependencies() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets kernels that wait for this one be put on the chip early; they still wait for its end before they read.
MOEGEN_DEVICE void launch_dependents() {
#ifdef MOEGEN_TARGET_CPU
  // Kernels run one after another on the CPU target.
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace moegen

// ---- finalize/args.h -------------------------------------------------------------------------------------
// Arguments of finalize, shared by host and device.


namespace moegen::finalize {

/// Most named inputs of one user expression.
enum : int { kMaxInputs = 8 };

/// out[t, h] = sum over slots j of weight[t, j] * down[restore[t * slots + j], h]. D = expert_hidden of the config.
/// All pointers are device memory; rows start at multiples of 16 bytes.
struct Args {
  enum : int { kFamily = 7 };  ///< Family::tag

  void* output;              ///< out [T, D] finalize.output, row-major
  const void* down;          ///< in  [rows, D] finalize.down, row-major, in expert order
  const uint32_t* restore;   ///< in  [T * slots] row of each pair, 0xFFFFFFFF contributes nothing
  const void* weights;       ///< in  [T, slots] router.weights; unused where weights are already applied
  const void* x;             ///< in  [T, D] dtypes.activation; only with zero experts
  const void* topk_ids;      ///< in  [T, slots] indices.ids; only with zero experts or finalize.bias
  const void* residual;      ///< in  [T, D] dtypes.activation; only with finalize.residual
  const void* shared;        ///< in  [T, D] finalize.down; only with finalize.shared
  const float* shared_gate;  ///< in  [T] logits of the shared expert's gate; only with shared_experts.gate = sigmoid
  const void* bias;          ///< in  [E, D] finalize.down; only with finalize.bias
  const void* inputs[kMaxInputs];  ///< in  named inputs of finalize.epilogue, in the order of their names
  int64_t num_tokens;              ///< T; 0 is legal and launches nothing
};

}  // namespace moegen::finalize

// ---- finalize/kernel.cuh ---------------------------------------------------------------------------------
// finalize: the weighted sum of a token's expert rows, gathered through the restore order.
//
// Algorithm. A thread owns `vector` neighbouring columns of one token. It loads the token's restore entries and
// weights, then its columns of up to `slots_in_flight` rows at once (each 16 bytes a load), and adds them in slot order
// in float. Terms follow in a fixed order: slots 0..num_slots-1, the shared expert, the residual; then the user
// expression; then one rounding and one store. A row that restore does not name is not read.
//
// `Custom` is what a config adds: gate(logit), the weight of the shared expert, and epilogue(args, value, token,
// column).
//
// Roles: all threads alike; block = `threads` columns-vectors of one token, `blocks_per_token` blocks a token.
// Shared memory and barriers: none.


namespace moegen::finalize {

/// `vector` elements of type T as they lie in memory.
template <class P, class T>
using Packed = Elements<T, P::vector>;

template <class P>
struct Columns {
  float value[P::vector];
};

template <class P, class T>
MOEGEN_DEVICE Packed<P, T> load_packed(const void* base, uint64_t row, uint32_t column) {
  return load_elements<T, P::vector>(base, row * P::hidden + column);
}

/// Rounds to the output's dtype and stores.
template <class P>
MOEGEN_DEVICE void store_columns(const Args& args, uint64_t token, uint32_t column, const Columns<P>& sum) {
  using T = typename P::output_dtype;
  char* pointer = static_cast<char*>(args.output) + (token * P::hidden + column) * sizeof(T);
  Packed<P, T> packed;
#pragma unroll
  for (uint32_t i = 0; i < P::vector; i += 2) {
    if constexpr (sizeof(T) == 4) {
      packed.piece[i / 4].word[i % 4] = float_bits(sum.value[i]);
      packed.piece[i / 4].word[i % 4 + 1] = float_bits(sum.value[i + 1]);
    } else {
      packed.piece[i / 8].word[i % 8 / 2] = pack_pair(T{}, sum.value[i], sum.value[i + 1]);
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < Packed<P, T>::kPieces; ++i) store(pointer + i * sizeof(Vector16), packed.piece[i]);
}

/// Where one slot's contribution comes from.
struct SlotSource {
  uint32_t row;      // row of down, or kNone
  float weight;      // 1 where the rows already carry theirs; 0 where there is no row
  int32_t expert;    // local expert, for its bias; -1 if none
  bool zero_expert;  // the contribution is weight * x[token]
};

/// Local expert of an id as create_indices numbers it, or -1.
template <class P>
MOEGEN_DEVICE int32_t local_expert(int64_t id) {
  if (id >= P::first_expert && id < P::first_expert + P::num_local_experts)
    return static_cast<int32_t>(id - P::first_expert);
  const int64_t first_shared = P::num_experts + P::num_zero_experts;
  if (id >= first_shared && id < first_shared + P::num_shared_slots)
    return static_cast<int32_t>(P::num_local_experts + id - first_shared);
  return -1;
}

template <class P>
MOEGEN_DEVICE SlotSource load_source(const Args& args, uint64_t pair) {
  SlotSource source = {args.restore[pair], 1.0f, -1, false};
  if constexpr (!P::weights_applied)
    source.weight = to_float(static_cast<const typename P::weight_dtype*>(args.weights)[pair]);
  if constexpr (P::num_zero_experts > 0 || P::bias) {
    const int64_t id = static_cast<int64_t>(static_cast<const typename P::id_dtype*>(args.topk_ids)[pair]);
    source.expert = local_expert<P>(id);
    source.zero_expert = id >= P::num_experts && id < P::num_experts + P::num_zero_experts;
  }
  return source;
}

/// Adds `scale` times a packed row to the sum.
template <class P, class T>
MOEGEN_DEVICE void add_row(Columns<P>& sum, const Packed<P, T>& packed, float scale) {
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) sum.value[i] += scale * packed[i];
}

/// Adds weight * (row + bias of its expert).
template <class P, class T>
MOEGEN_DEVICE void add_biased_row(const Args& args, Columns<P>& sum, const Packed<P, T>& packed, uint32_t column,
                                  const SlotSource& source) {
  if (source.expert < 0) return add_row<P, T>(sum, packed, source.weight);
  const auto bias = load_packed<P, T>(args.bias, static_cast<uint64_t>(source.expert), column);
#pragma unroll
  for (uint32_t i = 0; i < P::vector; ++i) sum.value[i] += source.weight * (packed[i] + bias[i]);
}

/// Adds the slots [first, first + Count): all rows are asked for before the first is used.
template <class P, uint32_t Count>
MOEGEN_DEVICE void add_slots(const Args& args, uint64_t token, uint32_t column, uint32_t first, Columns<P>& sum) {
  using Down = typename P::down_dtype;
  SlotSource source[Count];
  Packed<P, Down> rows[Count];
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) source[i] = load_source<P>(args, token * P::num_slots + first + i);
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i)
    if (source[i].row != kNone) rows[i] = load_packed<P, Down>(args.down, source[i].row, column);
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) {
    if (source[i].row != kNone) {
      if constexpr (P::bias)
        add_biased_row<P, Down>(args, sum, rows[i], column, source[i]);
      else
        add_row<P, Down>(sum, rows[i], source[i].weight);
    } else if constexpr (P::num_zero_experts > 0) {
      if (source[i].zero_expert)
        add_row<P>(sum, load_packed<P, typename P::activation_dtype>(args.x, token, column), source[i].weight);
    }
  }
}

/// The terms that follow the experts, in their fixed order.
template <class P, class Custom>
MOEGEN_DEVICE void add_extras(const Args& args, uint64_t token, uint32_t column, Columns<P>& sum) {
  if constexpr (P::shared) {
    float gate = 1.0f;
    if constexpr (P::shared_gate) gate = Custom::gate(args.shared_gate[token]);
    add_row<P>(sum, load_packed<P, typename P::down_dtype>(args.shared, token, column), gate);
  }
  if constexpr (P::residual)
    add_row<P>(sum, load_packed<P, typename P::activation_dtype>(args.residual, token, column), 1.0f);
}

template <class P, class Custom>
MOEGEN_DEVICE void run(const Args& args) {
  const uint64_t token = block_index() / P::blocks_per_token;
  const uint32_t slice = block_index() % P::blocks_per_token;
  const uint32_t column = (slice * P::threads + thread_index()) * P::vector;
  launch_dependents();
  wait_for_dependencies();
  if (column >= P::hidden) return;
  Columns<P> sum = {};
  constexpr uint32_t kWhole = P::num_slots / P::slots_in_flight * P::slots_in_flight;
#pragma unroll 1
  for (uint32_t first = 0; first < kWhole; first += P::slots_in_flight)
    add_slots<P, P::slots_in_flight>(args, token, column, first, sum);
  if constexpr (kWhole < P::num_slots) add_slots<P, P::num_slots - kWhole>(args, token, column, kWhole, sum);
  add_extras<P, Custom>(args, token, column, sum);
  if constexpr (P::epilogue) {
#pragma unroll
    for (uint32_t i = 0; i < P::vector; ++i) sum.value[i] = Custom::epilogue(args, sum.value[i], token, column + i);
  }
  store_columns<P>(args, token, column, sum);
}

}  // namespace moegen::finalize

// ---- this kernel -----------------------------------------------------------------------------------------
namespace moegen {

/// What this kernel was specialised for.
struct Params {
  using down_dtype = bfloat16;  // default: /finalize/down
  using weight_dtype = float;  // default: /router/weights
  using output_dtype = bfloat16;  // default: /finalize/output
  using activation_dtype = bfloat16;  // config: /dtypes/activation
  using id_dtype = int32_t;  // default: /indices/ids
  enum : uint32_t { hidden = 2880 };  // config: /hidden
  enum : uint32_t { num_slots = 4 };  // derived: top_k and the router's shared slots
  enum : uint32_t { num_experts = 32 };  // config: /num_experts
  enum : uint32_t { num_zero_experts = 0 };  // default: /num_zero_experts
  enum : uint32_t { num_shared_slots = 0 };  // default: /router/shared_slots
  enum : uint32_t { first_expert = 0 };  // default: /indices/first_expert
  enum : uint32_t { num_local_experts = 32 };  // default: /indices/num_local_experts
  enum : bool { weights_applied = false };  // default: /finalize/weights_applied
  enum : bool { bias = false };  // default: /finalize/bias
  enum : bool { shared = false };  // default: /finalize/shared
  enum : bool { shared_gate = false };  // default: /shared_experts/gate
  enum : bool { residual = false };  // default: /finalize/residual
  enum : bool { epilogue = false };  // default: /finalize/epilogue
  enum : uint32_t { vector = 8 };  // derived: columns of a thread: 16 bytes of the narrowest dtype
  enum : uint32_t { threads = 192 };  // derived: whole 4 KiB pieces of a row, or fewest idle threads in a token's last block
  enum : uint32_t { blocks_per_token = 2 };  // derived: blocks that cover the columns of a token
  enum : uint32_t { slots_in_flight = 4 };  // derived: rows asked for before the first is added
};

/// What the config adds to the sum of the experts.
struct Custom {
};

}  // namespace moegen

extern "C" __global__ void __launch_bounds__(192, 1)
moegen_finalize(const __grid_constant__ moegen::finalize::Args args) {
  using namespace moegen;
  finalize::run<Params, Custom>(args);
}
