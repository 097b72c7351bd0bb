// SPDX-License-Identifier: Apache-2.0
// How a call of kernel text is declared: a device function for Clang, a plain one for the model.
#pragma once

#ifdef __CUDA__
#define MOEGEN_CPU_CALL __attribute__((device))
#else
#define MOEGEN_CPU_CALL
#endif
