/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface from C: compiled as C11, linked with libmoegen.so, run against a driver without a GPU. The second
 * word of a failure is the line. */
#include <moegen/moegen.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* tests/fakes/fake_cuda.cpp: how many bytes of arguments the kernels take. */
void fake_cuda_set_args_bytes(size_t bytes);

static int failures = 0;

static void check(int ok, int line, const char* what) {
  if (ok) return;
  fprintf(stderr, "test_c_api.c:%d: %s; last error '%s'\n", line, what, moegen_last_error());
  ++failures;
}
#define CHECK(condition) check((condition) != 0, __LINE__, #condition)
#define CHECK_ERROR(text) check(strcmp(moegen_last_error(), text) == 0, __LINE__, text)

static const char* const kConfig =
    "{\"moegen\": 1, \"name\": \"unit\", \"hidden\": 2048, \"intermediate\": 768, \"num_experts\": 128,"
    " \"top_k\": 8, \"router\": {\"scoring\": \"softmax\"}}";

static int log_lines = 0;
static void count_line(void* user, int level, const char* message) {
  CHECK(user == &log_lines);
  CHECK(level >= MOEGEN_LOG_WARNING && level <= MOEGEN_LOG_DEBUG);
  CHECK(strlen(message) > 0);
  ++log_lines;
}

static moegen_options scratch_options(const char* folder) {
  moegen_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.cache_dir = folder;
  options.log_level = MOEGEN_LOG_DEBUG;
  options.log = count_line;
  options.log_user = &log_lines;
  return options;
}

static void cpu_memory(void) {
  static char memory[64];
  CHECK(moegen_cpu_register(NULL, 1, "memory") == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("moegen_cpu_register: 'data' is null");
  CHECK(moegen_cpu_register(memory, sizeof memory, "memory") == MOEGEN_OK);
  CHECK(moegen_cpu_register(memory + 8, 8, "inside") == MOEGEN_ERROR_CONFIG);
  CHECK(moegen_cpu_unregister(memory + 8) == MOEGEN_ERROR_CONFIG);
  CHECK(moegen_cpu_unregister(memory) == MOEGEN_OK);
}

static void bad_options(const char* folder) {
  moegen_engine* engine = NULL;
  moegen_options options = scratch_options(folder);
  options.struct_size = 3;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_ERROR_CONFIG);
  CHECK(strstr(moegen_last_error(), "moegen_engine_create: options.struct_size is 3; allowed ") != NULL);
  CHECK(engine == NULL);
  options = scratch_options(folder);
  options.jit = 3;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("moegen_engine_create: options.jit is 3; allowed 0 (default), 1 (on), 2 (off)");
  options = scratch_options(folder);
  options.log_level = -1;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_ERROR_CONFIG);
  options = scratch_options(folder);
  options.target = 3;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("moegen_engine_create: options.target is 3; allowed 0 (default), 1 (cuda), 2 (cpu)");
  options = scratch_options(folder);
  options.cpu_check = -1;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("moegen_engine_create: options.cpu_check is -1; allowed 0 (default), 1 (on), 2 (off)");
  options = scratch_options(folder);
  options.cpu_check = MOEGEN_ON;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR(
      "moegen_engine_create: options.cpu_check, cpu_schedule_seed or cpu_arch is set; allowed with options.target "
      "2 (cpu)");
  /* A caller that was compiled with the first version of the struct. */
  options = scratch_options(folder);
  options.struct_size = offsetof(moegen_options, target);
  options.target = 3;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_OK);
  moegen_engine_destroy(engine);
  options = scratch_options(folder);
  options.num_packs = 1;
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("moegen_engine_create: 'options.packs' is null");
  CHECK(moegen_engine_create(&options, NULL) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("moegen_engine_create: 'engine' is null");
}

static void bad_calls(moegen_engine* engine) {
  moegen_kernel* kernel = (moegen_kernel*)engine;
  size_t bytes = 0;
  CHECK(moegen_engine_get(NULL, kConfig, "create_indices", &kernel) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("moegen_engine_get: 'engine' is null");
  CHECK(kernel == NULL);
  CHECK(moegen_engine_get(engine, NULL, "create_indices", &kernel) == MOEGEN_ERROR_CONFIG);
  CHECK(moegen_engine_get(engine, kConfig, NULL, &kernel) == MOEGEN_ERROR_CONFIG);
  CHECK(moegen_engine_get(engine, kConfig, "create_indices", NULL) == MOEGEN_ERROR_CONFIG);
  CHECK(moegen_engine_get(engine, "{", "create_indices", &kernel) == MOEGEN_ERROR_CONFIG);
  CHECK(strncmp(moegen_last_error(), "config_json:1:2: ", 17) == 0);
  CHECK(moegen_engine_get(engine, kConfig, "create_indexes", &kernel) == MOEGEN_ERROR_CONFIG);
  CHECK(moegen_engine_get(engine, kConfig, "ep_combine", &kernel) == MOEGEN_ERROR_UNSUPPORTED);
  CHECK(moegen_kernel_run(NULL, &bytes, sizeof bytes, NULL) == MOEGEN_ERROR_CONFIG);
  CHECK(moegen_kernel_workspace_bytes(NULL, &bytes, sizeof bytes, &bytes) == MOEGEN_ERROR_CONFIG);
}

static moegen_create_indices_args some_args(void* memory) {
  moegen_create_indices_args args;
  memset(&args, 0, sizeof args);
  args.topk_ids = args.workspace = memory;
  args.token_expert_order = args.expert_start_indices = args.restore_token_order = args.expert_usage_stats =
      (uint32_t*)memory;
  args.expert_ids = (int32_t*)memory;
  args.num_pairs = 64;
  return args;
}

static void launch(moegen_engine* engine) {
  _Alignas(16) char memory[16];
  moegen_create_indices_args args = some_args(memory);
  moegen_kernel* kernel = NULL;
  size_t bytes = 99;
  CHECK(moegen_engine_get(engine, kConfig, "create_indices", &kernel) == MOEGEN_OK);
  if (!kernel) return;
  CHECK(moegen_kernel_workspace_bytes(kernel, &args, sizeof args, &bytes) == MOEGEN_OK);
  CHECK(bytes == 0);
  CHECK(moegen_kernel_run(kernel, &args, sizeof args, NULL) == MOEGEN_OK);
  CHECK(moegen_kernel_run(kernel, &args, 8, NULL) == MOEGEN_ERROR_CONFIG);
  CHECK_ERROR("create_indices of 'unit' for sm_90a: the argument struct has 8 bytes; allowed 72");
  args.num_pairs = -1;
  CHECK(moegen_kernel_run(kernel, &args, sizeof args, NULL) == MOEGEN_ERROR_CONFIG);
  CHECK(strstr(moegen_last_error(), "num_pairs is negative") != NULL);
  moegen_engine_destroy(engine); /* the kernel lives on */
  args.num_pairs = 0;
  CHECK(moegen_kernel_run(kernel, &args, sizeof args, NULL) == MOEGEN_OK);
  moegen_kernel_release(kernel);
}

int main(int argc, char** argv) {
  moegen_engine* engine = NULL;
  moegen_options options;
  if (argc != 2) return 2;
  fake_cuda_set_args_bytes(sizeof(moegen_create_indices_args));
  CHECK(moegen_abi_version() == MOEGEN_ABI_VERSION);
  CHECK(strlen(moegen_version()) >= 5);
  CHECK_ERROR("");
  CHECK(strcmp(moegen_last_log(), "") == 0);
  moegen_engine_destroy(NULL);
  moegen_kernel_release(NULL);
  bad_options(argv[1]);
  cpu_memory();
  options = scratch_options(argv[1]);
  CHECK(moegen_engine_create(&options, &engine) == MOEGEN_OK);
  if (!engine) return 1;
  bad_calls(engine);
  launch(engine);
  CHECK(log_lines > 0);
  if (failures == 0) printf("ok\n");
  return failures == 0 ? 0 : 1;
}
