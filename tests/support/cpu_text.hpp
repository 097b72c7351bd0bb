// SPDX-License-Identifier: Apache-2.0
// A kernel text on the CPU target: compiled for the host, loaded, launched on the model.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <moegen/arch.hpp>
#include <moegen/cpu_target.hpp>

#include "cpu/buffers.hpp"
#include "cpu/launcher/library.hpp"
#include "cpu/target.hpp"
#include "support/skip.hpp"
#include "support/text_launch.hpp"

namespace moegen::test {

/// The CPU target; ends the test as skipped where this build has none, and as failed where it has one that does not
/// load.
inline const cpu::Target& cpu_target() {
  std::string why;
  static const cpu::Target* target = cpu::load_target(&why);
  if (!target && MOEGEN_HAS_CPU_TARGET) throw std::runtime_error(why);
  if (!target) skip(why);
  return *target;
}

class CpuText {
 public:
  /// Throws: runtime_error with the compiler's messages.
  CpuText(const std::string& text, const std::string& file_name, const Arch& arch,
          const std::vector<std::string>& entries, bool check = false)
      : arch_(arch), check_(check) {
    const cpu::CompiledObject compiled = cpu_target().compile(
        {.source = text, .file_name = file_name, .arch = arch, .entries = entries, .check = check});
    if (compiled.object.empty()) throw std::runtime_error(compiled.log);
    std::string why;
    program_ = cpu_target().load(compiled.object, entries, why);
    if (!program_) throw std::runtime_error(why);
  }

  /// Runs `entry` to its end. `parameters` as for cuLaunchKernelEx; checked if it was compiled so.
  std::vector<CpuReport> run(const std::string& entry, const TextLaunch& launch, void** parameters,
                             CpuOptions options = {}) const {
    options.check = check_;
    cpu::LaunchRequest request;
    request.program = program_.get();
    request.entry = entry;
    request.label = entry;
    request.arch = arch_;
    request.num_sms = options.num_sms;
    request.grid[0] = launch.grid;
    request.block[0] = launch.block;
    request.cluster = launch.cluster;
    request.cooperative = launch.cooperative;
    request.dynamic_shared_bytes = launch.shared_bytes;
    request.parameters = parameters;
    request.options = options;
    request.buffers = &cpu::Buffers::process();
    return cpu_target().launch(request).reports;
  }

 private:
  Arch arch_;
  bool check_;
  std::shared_ptr<const cpu::Program> program_;
};

inline std::string text(const std::vector<CpuReport>& reports) {
  std::string all;
  for (const CpuReport& report : reports) all += report.text() + "\n";
  return all;
}

}  // namespace moegen::test
