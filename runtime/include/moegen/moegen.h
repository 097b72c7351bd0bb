/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of moegen (libmoegen.so): for engines in other languages. docs/embedding.md shows its use.
 *
 * Every function that can fail returns a moegen_status; 0 is success. After a failure moegen_last_error() has one
 * sentence that says where, what and what is allowed. No C++ exception ever crosses this interface.
 * Handles may be used from any thread at the same time, except to destroy them. */
#ifndef MOEGEN_MOEGEN_H
#define MOEGEN_MOEGEN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MOEGEN_API __attribute__((visibility("default")))
#else
#define MOEGEN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function or a struct of this header changes in a way that old callers would notice. */
#define MOEGEN_ABI_VERSION 1

typedef enum moegen_status {
  MOEGEN_OK = 0,
  MOEGEN_ERROR_CONFIG = 1,      /* config, argument, option or environment is wrong */
  MOEGEN_ERROR_UNSUPPORTED = 2, /* well-formed, but this version, arch or driver cannot do it */
  MOEGEN_ERROR_COMPILE = 3,     /* the compiler refused a source text; moegen_last_log() has its log */
  MOEGEN_ERROR_CACHE = 4,       /* a pack or cache operation failed */
  MOEGEN_ERROR_DRIVER = 5,      /* a CUDA driver call failed */
  MOEGEN_ERROR_INTERNAL = 6,    /* a bug of moegen, or out of host memory */
  MOEGEN_ERROR_KERNEL = 7       /* CPU target: a kernel did something wrong; moegen_last_log() has the whole report */
} moegen_status;

typedef enum moegen_switch { MOEGEN_DEFAULT = 0, MOEGEN_ON = 1, MOEGEN_OFF = 2 } moegen_switch;

/* Where an engine's kernels run. On the CPU target device memory is host memory, streams are ignored and a launch runs
 * to its end; see docs/cpu_target.md. */
typedef enum moegen_target { MOEGEN_TARGET_DEFAULT = 0, MOEGEN_TARGET_CUDA = 1, MOEGEN_TARGET_CPU = 2 } moegen_target;

typedef enum moegen_log_level {
  MOEGEN_LOG_DEFAULT = 0,
  MOEGEN_LOG_OFF = 1,
  MOEGEN_LOG_WARNING = 2,
  MOEGEN_LOG_INFO = 3,
  MOEGEN_LOG_DEBUG = 4
} moegen_log_level;

/* How an engine works. A field that is zero keeps what the environment says (MOEGEN_CACHE_DIR, MOEGEN_PACKS, ...), else
 * its default. Set struct_size to sizeof(moegen_options): later versions add fields at the end. Texts are UTF-8 and are
 * copied. */
typedef struct moegen_options {
  size_t struct_size;
  const char* cache_dir;    /* folder of the cubin cache, an absolute path */
  const char* const* packs; /* num_packs pack files, searched before the cache; instead of those of the environment */
  size_t num_packs;
  uint64_t cache_max_bytes; /* default 2 GiB */
  const char* template_dir; /* device templates to use instead of the built-in ones; for work on kernels */
  int jit;                  /* moegen_switch; off: a kernel that is not stored is an error */
  int log_level;            /* moegen_log_level; default: warnings */
  /* Called from any thread with a moegen_log_level (2..4) and one line without a newline. Default: standard error. */
  void (*log)(void* log_user, int level, const char* message);
  void* log_user;
  /* From here on: fields of the second version. */
  int target;                 /* moegen_target; default: cuda */
  int cpu_check;              /* moegen_switch; CPU target: memory and race checks; default off */
  uint64_t cpu_schedule_seed; /* CPU target: 0 = fair schedule, else the seed of a chaotic one */
  const char* cpu_arch;       /* CPU target: the GPU that is modelled; default "sm_90a" */
} moegen_options;

typedef struct moegen_engine moegen_engine; /* finds, compiles and loads kernels; one serves all devices */
typedef struct moegen_kernel moegen_kernel; /* one kernel, ready to run; independent of the engine's life */
struct CUstream_st;                         /* CUstream and cudaStream_t are pointers to this */

/* MOEGEN_ABI_VERSION of the library. Callers that were compiled with a later header must not go on. */
MOEGEN_API int moegen_abi_version(void);
/* "0.1.0" */
MOEGEN_API const char* moegen_version(void);

/* What went wrong in the last call of this thread that failed; "" before the first. Valid until the next call of this
 * thread that fails. */
MOEGEN_API const char* moegen_last_error(void);
/* The compiler's log of that failure if it was MOEGEN_ERROR_COMPILE, the findings in full if it was
 * MOEGEN_ERROR_KERNEL, else "". Same lifetime. */
MOEGEN_API const char* moegen_last_log(void);

/* `options` may be null: everything from the environment. Needs no driver and no GPU. */
MOEGEN_API int moegen_engine_create(const moegen_options* options, moegen_engine** engine);
/* Null is allowed. Kernels that came from the engine live on. */
MOEGEN_API void moegen_engine_destroy(moegen_engine* engine);

/* The kernel `kernel` ("create_indices") of the config `config_json` (the text, not a file name; comments allowed),
 * ready on the calling thread's current device. The first call for a config may compile for a second; call it for every
 * kernel and device before the first request. Release the kernel with moegen_kernel_release. */
MOEGEN_API int moegen_engine_get(moegen_engine* engine, const char* config_json, const char* kernel,
                                 moegen_kernel** result);
/* Null is allowed. */
MOEGEN_API void moegen_kernel_release(moegen_kernel* kernel);

/* Launches on `stream` in the calling thread's current context. `args` points to the argument struct of the kernel's
 * family (below). Allocates nothing, takes no lock, never synchronises, is legal in stream capture; a launch without
 * work (zero tokens) succeeds. On success moegen_last_error() keeps what it says. */
MOEGEN_API int moegen_kernel_run(const moegen_kernel* kernel, const void* args, size_t args_bytes,
                                 struct CUstream_st* stream);
/* Bytes of device workspace that such a launch needs on the current device; only the sizes in `args` are read. Zero the
 * workspace once: every launch leaves it zeroed. One workspace serves one stream at a time. */
MOEGEN_API int moegen_kernel_workspace_bytes(const moegen_kernel* kernel, const void* args, size_t args_bytes,
                                             size_t* bytes);

/* CPU target with cpu_check: makes [data, data + bytes) known as `name`; kernels may touch only what is known. Not
 * needed without checks. */
MOEGEN_API int moegen_cpu_register(const void* data, size_t bytes, const char* name);
/* `data`: where a known range starts. */
MOEGEN_API int moegen_cpu_unregister(const void* data);

/* Argument structs. All pointers are device memory. What each kernel computes, and the shapes, dtypes and alignments in
 * full: templates/<family>/args.h and docs. */

typedef struct moegen_create_indices_args {
  const void* topk_ids;           /* in  [P] ids dtype of the config */
  uint32_t* token_expert_order;   /* out [P + min(P, E) * (pad_rows_to - 1)], 0xFFFFFFFF where unused */
  uint32_t* expert_start_indices; /* out [E + 1] */
  uint32_t* restore_token_order;  /* out [P], 0xFFFFFFFF for a dropped pair */
  int32_t* expert_ids;            /* out [E], -1 past the last active expert */
  uint32_t* expert_usage_stats;   /* out [2] {most tokens of one expert, experts with tokens} */
  uint32_t* scales_offset;        /* out [E], null unless indices.scales_offset */
  void* workspace;                /* moegen_kernel_workspace_bytes, null if 0 */
  int64_t num_pairs;              /* P = num_tokens * slots */
} moegen_create_indices_args;

typedef struct moegen_permute_args {
  void* rows;                           /* out [R, D] in the activation's dtype, or codes */
  void* scales;                         /* out scales of codes, else null */
  const void* x;                        /* in  [T, D] */
  const uint32_t* restore;              /* in  [T * slots] row of each pair, 0xFFFFFFFF: none */
  const void* weights;                  /* in  [T, slots]; only with experts.weights_on_input */
  const uint32_t* order;                /* in  as create_indices writes it; only with indices.pad_rows_to above 1 */
  const uint32_t* expert_start_indices; /* in  the same */
  const float* global_scale;            /* in  [1]; only with the schemes tensor and nvfp4 */
  int64_t num_tokens;                   /* T */
  int64_t num_rows;                     /* R, an upper bound */
  int64_t scales_stride;                /* scale_layout column: elements between blocks of columns; 0: R, rounded up */
} moegen_permute_args;

#define MOEGEN_ACTIVATION_MAX_INPUTS 8

typedef struct moegen_activation_args {
  void* rows;                                       /* out [R, I] in the activation's dtype, or codes */
  void* scales;                                     /* out scales of codes, else null */
  const void* up;                                   /* in  [R, 2 * I], or [R, I] without a gate */
  const uint32_t* row_count;                        /* in  [1] rows in use; null: all */
  const uint32_t* expert_start_indices;             /* in  [G + 1]; only where the plan says by_expert */
  const int32_t* expert_ids;                        /* in  [G]; the same */
  const float* limits;                              /* in  [E]; only with activation.limit_per_expert */
  const float* global_scale;                        /* in  [1]; only with the schemes tensor and nvfp4 */
  const void* inputs[MOEGEN_ACTIVATION_MAX_INPUTS]; /* in  named inputs of experts.up_epilogue */
  int64_t num_rows;                                 /* R, an upper bound */
  int64_t num_groups;                               /* G */
  int64_t scales_stride;                            /* as above */
} moegen_activation_args;

typedef struct moegen_quantize_args {
  void* rows;                /* out [R, W] codes; two a byte with mxfp4 and nvfp4 */
  void* scales;              /* out scales; null with the scheme tensor */
  const void* x;             /* in  [R, W] */
  const uint32_t* row_count; /* in  [1] rows in use; null: all */
  const float* global_scale; /* in  [1]; only with the schemes tensor and nvfp4 */
  int64_t num_rows;          /* R, an upper bound */
  int64_t scales_stride;     /* as above */
} moegen_quantize_args;

#define MOEGEN_FINALIZE_MAX_INPUTS 8

typedef struct moegen_finalize_args {
  void* output;                                   /* out [T, D] */
  const void* down;                               /* in  [rows, D] */
  const uint32_t* restore;                        /* in  [T * slots] row of each pair, 0xFFFFFFFF contributes nothing */
  const void* weights;                            /* in  [T, slots] */
  const void* x;                                  /* in  [T, D]; only with zero experts */
  const void* topk_ids;                           /* in  [T, slots]; only with zero experts or finalize.bias */
  const void* residual;                           /* in  [T, D]; only with finalize.residual */
  const void* shared;                             /* in  [T, D]; only with finalize.shared */
  const float* shared_gate;                       /* in  [T]; only with shared_experts.gate = sigmoid */
  const void* bias;                               /* in  [E, D]; only with finalize.bias */
  const void* inputs[MOEGEN_FINALIZE_MAX_INPUTS]; /* in  named inputs of finalize.epilogue */
  int64_t num_tokens;                             /* T */
} moegen_finalize_args;

#define MOEGEN_GROUPED_MATMUL_MAX_INPUTS 8

typedef struct moegen_grouped_matmul_args {
  void* c;                   /* out [R, C] */
  void* c_scales;            /* out scales of a quantised c, else null */
  const void* a;             /* in  [R, K], or [T, K] where the plan gathers */
  const void* b;             /* in  [E, N, K] */
  const void* a_scales;      /* in  null without a scheme; tensor [1], rowwise [R], block128 [R, ceil(K / 128)] */
  const void* b_scales;      /* in  null without a scheme; tensor [1], rowwise [E, N], block128 [E, ., ceil(K / 128)] */
  const uint32_t* a_offsets; /* in  [G + 1] first row of each group, any start */
  const int32_t* expert_ids; /* in  [G] expert of each group, -1: none */
  const void* bias;          /* in  [E, N]; only with experts.bias */
  const float* limits;       /* in  [E]; only with activation.limit_per_expert, fused */
  const uint32_t* order;     /* in  [R] pair indices; only where the plan gathers */
  const void* inputs[MOEGEN_GROUPED_MATMUL_MAX_INPUTS]; /* in  named inputs of the epilogue */
  int64_t num_rows;                                     /* R, an upper bound */
  int64_t num_groups;                                   /* G */
  int64_t a_scales_stride;           /* scale_layout column: elements between blocks of K; 0: R, rounded up */
  int64_t c_scales_stride;           /* the same for c_scales */
  int64_t max_num_tokens_per_expert; /* a hint; -1: unknown */
  int64_t num_active_experts;        /* a hint; -1: unknown */
} moegen_grouped_matmul_args;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOEGEN_MOEGEN_H */
