// SPDX-License-Identifier: Apache-2.0
// The calls of kernel text as the model defines them.
#pragma once

#ifndef MOEGEN_CPU_CALL
#define MOEGEN_CPU_CALL
#endif

#include "cpu/calls/copies.h"
#include "cpu/calls/matrix.h"
#include "cpu/calls/sync.h"
#include "cpu/calls/thread_context.h"
