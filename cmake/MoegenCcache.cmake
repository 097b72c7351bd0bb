# SPDX-License-Identifier: Apache-2.0
# Compiles through ccache where it is installed, unless the user has chosen a launcher.

find_program(MOEGEN_CCACHE ccache DOC "ccache, used for every compile if found")
mark_as_advanced(MOEGEN_CCACHE)
if(MOEGEN_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MOEGEN_CCACHE})
endif()
