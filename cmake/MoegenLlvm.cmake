# SPDX-License-Identifier: Apache-2.0
# moegen_use_llvm_object(TARGET): links llvm::object statically, so that the command line starts without relocating
# libLLVM (18 ms instead of 2), and defines MOEGEN_WITH_LLVM. Does nothing where LLVM is not to be used.

set(MOEGEN_WITH_LLVM AUTO CACHE STRING "Use LLVM 19 for 'moegen inspect': ON, OFF, or AUTO (where it is found)")
set_property(CACHE MOEGEN_WITH_LLVM PROPERTY STRINGS AUTO ON OFF)

function(moegen_use_llvm_object target)
  if(MOEGEN_WITH_LLVM STREQUAL "OFF")
    return()
  endif()
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # the tests link TARGET too, from another folder
  # LLVM's targets need these two, and Debian's package of it does not depend on their development files.
  find_package(ZLIB QUIET)
  find_package(zstd QUIET CONFIG)
  if(ZLIB_FOUND AND zstd_FOUND)
    # 19.1 and not 19: Debian's 19.1.7 does not count itself compatible with 19.
    find_package(LLVM 19.1 QUIET CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
  endif()
  if(LLVM_FOUND)
    target_compile_definitions(${target} PRIVATE MOEGEN_WITH_LLVM)
    target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
    target_link_libraries(${target} PRIVATE LLVMObject)
    # The archives are far larger than the part of them that reading ELF files needs.
    target_link_options(${target} INTERFACE LINKER:--gc-sections LINKER:--as-needed)
  elseif(MOEGEN_WITH_LLVM STREQUAL "AUTO")
    message(STATUS "LLVM 19 (llvm-19-dev, libzstd-dev, zlib1g-dev) not found: 'moegen inspect' will say so")
  else()
    message(FATAL_ERROR "MOEGEN_WITH_LLVM=${MOEGEN_WITH_LLVM}, but LLVM 19.1 with zlib and zstd was not found; install "
                        "llvm-19-dev, libzstd-dev and zlib1g-dev, or configure with -DMOEGEN_WITH_LLVM=OFF")
  endif()
endfunction()
