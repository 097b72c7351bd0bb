# SPDX-License-Identifier: Apache-2.0
# cmake -D OUTPUT=file.cpp -D ROOT=templates -P embed.cmake: writes every template as a C++ string, sorted by path.

cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE paths RELATIVE "${ROOT}" "${ROOT}/*.cuh" "${ROOT}/*.h")
list(SORT paths)
set(text "// Generated from templates/ by cmake/embed.cmake.\n#include \"embedded_templates.hpp\"\n\n")
string(APPEND text "namespace moegen {\n\nconst EmbeddedTemplate kEmbeddedTemplates[] = {\n")
foreach(path IN LISTS paths)
  file(READ "${ROOT}/${path}" content)
  string(APPEND text "    {\"${path}\", R\"moegen_text(${content})moegen_text\"},\n")
endforeach()
list(LENGTH paths count)
string(APPEND text "};\nconst std::size_t kNumEmbeddedTemplates = ${count};\n\n}  // namespace moegen\n")
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "@text@" @ONLY NEWLINE_STYLE UNIX)
