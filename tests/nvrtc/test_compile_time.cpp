// SPDX-License-Identifier: Apache-2.0
// What a cold compile takes, in units of the compile of an empty kernel on the same machine in the same process.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/config.hpp>
#include <moegen/source.hpp>

#include "cuda/nvrtc.hpp"
#include "support/shipped.hpp"
#include "support/skip.hpp"

namespace {

using namespace moegen;

const cuda::Nvrtc& nvrtc() {
  std::string why;
  static const auto loaded = cuda::Nvrtc::load(&why);
  if (!loaded) test::skip(why);
  return *loaded;
}

double compile_ms(const std::string& text, const Arch& arch, const std::vector<std::string>& entries) {
  const auto start = std::chrono::steady_clock::now();
  nvrtc().compile(text, "timed.cu", arch, entries);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// The median of nine, after one that loads what NVRTC loads once.
double empty_ms(const Arch& arch) {
  const auto once = [&] { return compile_ms("extern \"C\" __global__ void empty(int*) {}\n", arch, {"empty"}); };
  once();
  std::array<double, 9> all;
  std::ranges::generate(all, once);
  std::ranges::sort(all);
  return all[all.size() / 2];
}

struct Cost {
  double slowest_ms = 0, sum_ms = 0;
  std::string parts;
};

/// The parts of `plan` one after another; side by side, on as many cores, they take as long as the slowest.
Cost cost_of(const Plan& plan) {
  Cost cost;
  for (const Plan& part : parts_of(plan)) {
    const Source source = emit_source(part);
    const double ms = compile_ms(source.text, part.arch, source.entries);
    cost.slowest_ms = std::max(cost.slowest_ms, ms);
    cost.sum_ms += ms;
    cost.parts += fmt::format(" {} {:.0f}", part.entries.front().variant, ms);
  }
  return cost;
}

}  // namespace

TEST_CASE("cold compiles of every shipped config's matmuls: a table" * doctest::skip()) {
  const Arch& arch = find_arch("sm_90a");
  const double empty = empty_ms(arch);
  std::string table = fmt::format("empty kernel: {:.1f} ms\n", empty);
  double worst = 0;
  for (const auto& path : test::shipped_configs()) {
    const Config config = Config::from_file(path);
    for (const std::string& kernel : available_kernels_of(config)) {
      if (!kernel.starts_with("grouped_matmul.")) continue;
      const Cost cost = cost_of(make_plan(config, kernel, arch));
      worst = std::max(worst, cost.slowest_ms / empty);
      table += fmt::format("{:<18} {:<20} {:>6.0f} ms {:>5.1f} times empty (sum {:>5.1f}): {}\n", config->name, kernel,
                           cost.slowest_ms, cost.slowest_ms / empty, cost.sum_ms / empty, cost.parts);
    }
  }
  MESSAGE(table);
  CHECK(worst <= 60);
}

TEST_CASE("cold compile of a matmul of one width") {
  const Arch& arch = find_arch("sm_90a");
  for (const char* scheme : {R"("scheme": "none"}, "dtypes": {"weight": "bfloat16"})",
                             R"("scheme": "rowwise"}, "dtypes": {"weight": "float8_e4m3fn"})"}) {
    const Config config = Config::from_json(fmt::format(
        R"({{"moegen": 1, "name": "one", "hidden": 2048, "intermediate": 1024, "num_experts": 64, "top_k": 4,
             "router": {{"scoring": "softmax"}}, "quantization": {{{},
             "tune": {{"space": {{"narrow_max_tokens": [64], "narrow_width_step": [64]}}}}}})",
        scheme));
    const std::vector<Plan> parts = parts_of(make_plan(config, "grouped_matmul.down", arch));
    const Source source = emit_source(parts.front());
    const double empty = empty_ms(arch), times = compile_ms(source.text, arch, source.entries) / empty;
    MESSAGE(fmt::format("{}: {:.1f} times the empty kernel's {:.1f} ms", scheme, times, empty));
    CHECK(times <= 60);  // of a loaded machine; docs/kernels.md has a quiet one's
  }
}
