// SPDX-License-Identifier: Apache-2.0
// Compiles the two kernels around the experts of a Mixture-of-Experts layer and reports on them, then runs them where
// there is a GPU: create_indices groups (token, slot) pairs by expert, finalize adds up each token's expert rows.

#include "run_on_gpu.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include <moegen/arch.hpp>
#include <moegen/plan.hpp>

namespace {

constexpr std::string_view kConfig = R"({
  "moegen": 1, "name": "group_and_combine",
  "hidden": 2048, "intermediate": 768, "num_experts": 128, "top_k": 8,
  "router": {"scoring": "softmax"},
  "finalize": {"down": "bfloat16", "output": "float32"}
})";

/// Building needs no GPU: an application can ship the kernels it compiled elsewhere.
void build_and_report(moegen::Engine& engine, const moegen::Config& config, std::string_view kernel) {
  const moegen::Plan plan = moegen::make_plan(config, kernel, moegen::find_arch("sm_90a"));
  const moegen::BuildReport report = engine.build(plan);
  std::printf("%-16s %-8s %-9s %7.1f ms %7llu bytes\n", report.kernel.c_str(), report.arch.c_str(),
              std::string(moegen::to_string(report.status)).c_str(), report.milliseconds,
              static_cast<unsigned long long>(report.cubin_bytes));
  for (const moegen::EntryResources& entry : report.resources)
    std::printf("  %-40s %3d registers, %d bytes spilled\n", entry.entry.c_str(), entry.registers,
                entry.spill_store_bytes + entry.spill_load_bytes);
}

}  // namespace

int main() try {
  const moegen::Config config = moegen::Config::from_json(kConfig, "built-in config");
  moegen::Engine engine;
  build_and_report(engine, config, "create_indices");
  build_and_report(engine, config, "finalize");
  return run_on_gpu(engine, config);
} catch (const std::exception& error) {
  std::fprintf(stderr, "group_and_combine: %s\n", error.what());
  return 1;
}
