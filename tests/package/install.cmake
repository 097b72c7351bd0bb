# SPDX-License-Identifier: Apache-2.0
# Installs the build BUILD into STAGED and moves the tree to MOVED: an installed package must not know where it was put.

file(REMOVE_RECURSE ${STAGED} ${MOVED})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${STAGED} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${STAGED} ${MOVED})

file(GLOB_RECURSE packages ${MOVED}/*.cmake)
list(LENGTH packages count)
if(count LESS 3)
  message(FATAL_ERROR "the installed tree holds ${count} CMake files; config, version and targets were expected")
endif()
foreach(package IN LISTS packages)
  file(STRINGS ${package} absolute REGEX "${BUILD}|${STAGED}")
  if(absolute)
    message(FATAL_ERROR "${package} names the build or the staging folder: ${absolute}")
  endif()
endforeach()
