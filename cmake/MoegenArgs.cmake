# SPDX-License-Identifier: Apache-2.0
# The argument structs live beside their kernels as templates/<family>/args.h. Host code, in this build as after an
# installation, includes them as <moegen/args/<family>.h>.

set(MOEGEN_FAMILIES activation create_indices finalize grouped_matmul permute quantize router)
set(MOEGEN_ARGS_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)

file(MAKE_DIRECTORY ${MOEGEN_ARGS_INCLUDE_DIR}/moegen/args)
foreach(family IN LISTS MOEGEN_FAMILIES)
  # A link, not a copy: `#pragma once` then knows both spellings as one file.
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/templates/${family}/args.h ${MOEGEN_ARGS_INCLUDE_DIR}/moegen/args/${family}.h
       SYMBOLIC)
endforeach()
# What argument structs hold, under the path that `#include "../core/..."` in one of them leads to.
file(MAKE_DIRECTORY ${MOEGEN_ARGS_INCLUDE_DIR}/moegen/core)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/templates/core/tensor_map.h ${MOEGEN_ARGS_INCLUDE_DIR}/moegen/core/tensor_map.h
     SYMBOLIC)
