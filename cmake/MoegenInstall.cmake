# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: libraries, headers, the command line, configs and the CMake package `moegen`.

include(CMakePackageConfigHelpers)

set(MOEGEN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/moegen)

# Public headers are those in include/; a part's other headers stay private to the build.
set(targets moegen_generator)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/generator/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(family IN LISTS MOEGEN_FAMILIES)
  install(FILES ${PROJECT_SOURCE_DIR}/templates/${family}/args.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moegen/args RENAME ${family}.h)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/templates/core/tensor_map.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moegen/core)
set_property(TARGET moegen_generator PROPERTY EXPORT_NAME generator)
if(MOEGEN_BUILD_RUNTIME)
  list(APPEND targets moegen_cache moegen_runtime moegen_c)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  set_property(TARGET moegen_cache PROPERTY EXPORT_NAME cache)  # only ever linked through runtime
  set_property(TARGET moegen_runtime PROPERTY EXPORT_NAME runtime)
  set_property(TARGET moegen_c PROPERTY EXPORT_NAME c)
endif()
if(TARGET moegen_cpu)
  # Loaded by name when the CPU target is asked for, never linked: no part of the exported package.
  install(TARGETS moegen_cpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET moegen_cli)
  install(TARGETS moegen_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(TARGETS ${targets} EXPORT moegen ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT moegen NAMESPACE moegen:: FILE moegenTargets.cmake DESTINATION ${MOEGEN_CMAKE_DIR})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/moegenConfig.cmake.in ${PROJECT_BINARY_DIR}/moegenConfig.cmake
  INSTALL_DESTINATION ${MOEGEN_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break what an application was written against.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/moegenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/moegenConfig.cmake ${PROJECT_BINARY_DIR}/moegenConfigVersion.cmake
        DESTINATION ${MOEGEN_CMAKE_DIR})

install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/moegen/configs)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
