// SPDX-License-Identifier: Apache-2.0
// The functions of expressions as NVRTC sees them: every one compiles without a header, for the oldest and newest arch.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <moegen/arch.hpp>

#include "cuda/nvrtc.hpp"
#include "expression.hpp"
#include "expression/functions.hpp"
#include "support/skip.hpp"

using namespace moegen;

namespace {

const cuda::Nvrtc& nvrtc() {
  std::string why;
  static const auto loaded = cuda::Nvrtc::load(&why);
  if (!loaded) test::skip(why);
  return *loaded;
}

// A template without the two kinds of lines that an emitted source has not.
std::string template_text(const std::string& name) {
  std::ifstream file(std::string(MOEGEN_SOURCE_DIR) + "/templates/core/" + name);
  std::string text, line;
  while (std::getline(file, line))
    if (!line.starts_with("#include") && !line.starts_with("#pragma once")) text += line + "\n";
  REQUIRE(text.size() > 100);
  return text;
}

std::string kernel(const std::string& name, const std::string& expression) {
  const std::vector<std::string> names = {"x", "y", "z"};
  const std::string value = Expression::parse(expression, names).emit([](std::string_view input) {
    return "in[3 * threadIdx.x + " + std::to_string(input[0] - 'x') + "]";
  });
  return "extern \"C\" __global__ void " + name + "(const float* in, float* out) {\n  out[threadIdx.x] = " + value +
         ";\n}\n";
}

std::string call_of(const expression::Function& function) {
  constexpr const char* kArguments[] = {"x", "x, y", "x, y, z"};
  return std::string(function.name) + "(" + kArguments[function.arity - 1] + ")";
}

}  // namespace

TEST_CASE("every function compiles for each arch, without a spill") {
  std::string source = template_text("types.cuh") + template_text("bits.cuh") + template_text("math.cuh");
  std::vector<std::string> entries;
  for (const expression::Function& function : expression::functions()) {
    entries.push_back("use_" + std::string(function.name));
    source += kernel(entries.back(), call_of(function));
  }
  entries.push_back("use_operators");
  source += kernel(entries.back(), "x > 0 && y != 2 || !(z <= -1e-30) ? x * y - z / 3 : 3.4e38 + x");
  for (const char* arch : {"sm_80", "sm_90a", "sm_120a"}) {
    const cuda::CompiledCubin cubin = nvrtc().compile(source, "math.cu", find_arch(arch), entries);
    REQUIRE(cubin.resources.size() == entries.size());
    for (const EntryResources& resources : cubin.resources) {
      CHECK_MESSAGE(resources.spill_store_bytes + resources.spill_load_bytes == 0, resources.entry << " " << arch);
      CHECK_MESSAGE(resources.registers <= 32, resources.entry << " " << arch << " " << resources.registers);
    }
  }
}
