# SPDX-License-Identifier: Apache-2.0
# moegen_target(NAME): what every target of moegen has in common.

function(moegen_target name)
  target_compile_features(${name} PUBLIC cxx_std_20)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
                                           CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  # -Wrestrict: GCC 12 reports std::string's own operator+ when it optimises (its bug 105651).
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                                         $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                                         $<$<BOOL:${MOEGEN_WERROR}>:-Werror>)
endfunction()
