/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface as an installed package: versions agree, and a bad config comes back as a located sentence. */
#include <stdio.h>
#include <string.h>

#include <moegen/moegen.h>

static int fail(const char* what) {
  fprintf(stderr, "c_application: %s; last error '%s'\n", what, moegen_last_error());
  return 1;
}

int main(void) {
  moegen_engine* engine = NULL;
  moegen_kernel* kernel = NULL;

  if (moegen_abi_version() != MOEGEN_ABI_VERSION) return fail("header and library differ");
  if (moegen_engine_create(NULL, &engine) != MOEGEN_OK) return fail("no engine");
  if (moegen_engine_get(engine, "{\"moegen\": 1, \"hiden\": 64}", "finalize", &kernel) != MOEGEN_ERROR_CONFIG)
    return fail("a config with an unknown field was taken");
  if (strstr(moegen_last_error(), "/hiden") == NULL) return fail("the field is not named");
  if (kernel != NULL) return fail("a kernel came out of a bad config");
  moegen_engine_destroy(engine);
  printf("libmoegen %s\n", moegen_version());
  return 0;
}
