# SPDX-License-Identifier: Apache-2.0
# Compiles each installed C++ header and argument header alone, with INCLUDE as the only include folder.

file(GLOB_RECURSE headers RELATIVE ${INCLUDE} ${INCLUDE}/moegen/*.hpp ${INCLUDE}/moegen/*.h)
list(LENGTH headers count)
if(count LESS 10)
  message(FATAL_ERROR "only ${count} headers are installed in ${INCLUDE}")
endif()
foreach(header IN LISTS headers)
  execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
                          -fsyntax-only -x c++ -include ${header} -I ${INCLUDE} /dev/null
                  RESULT_VARIABLE result)
  if(result)
    message(FATAL_ERROR "<${header}> does not compile by itself")
  endif()
endforeach()
