// SPDX-License-Identifier: Apache-2.0
// Guarded: a call of kernel text as loaded code enters it. No exception can cross the frames that a compiled text has,
// so one that the model cannot help, such as a lack of memory, ends the launch here.
#pragma once

#include <exception>

#include "cpu/model/launch.hpp"
#include "cpu/model/scheduler.hpp"

namespace moegen::cpu {

template <auto function>
struct Guarded;

template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct Guarded<function> {
  static Result call(Arguments... arguments) noexcept {
    try {
      return function(arguments...);
    } catch (const std::exception& error) {
      Scheduler::current().launch().give_up(error);
    }
    Scheduler::current().abandon();  // behind the handler: what was caught is gone
  }
};

}  // namespace moegen::cpu
