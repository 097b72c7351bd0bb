// SPDX-License-Identifier: Apache-2.0
// libmoegen_cpu.so: the compiler, the loader and the model as one Target.
#include "cpu/check/checker.hpp"
#include "cpu/compile/compiler.hpp"
#include "cpu/compile/symbols.hpp"
#include "cpu/model/launcher.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {

namespace {

std::vector<Symbol> all_symbols() {
  std::vector<Symbol> symbols = model_symbols();
  const std::vector<Symbol> support = support_symbols();
  symbols.insert(symbols.end(), support.begin(), support.end());
  return symbols;
}

class HostTarget final : public Target {
 public:
  HostTarget() : loader_(all_symbols()) {}
  std::string version() const override { return compiler_.version(); }
  CompiledObject compile(const CompileRequest& request) const override { return compiler_.compile(request); }
  std::shared_ptr<const Program> load(std::string_view object, const std::vector<std::string>& entries,
                                      std::string& why) const override {
    return loader_.load(object, entries, why);
  }
  LaunchOutcome launch(const LaunchRequest& request) const override { return cpu::launch(request, &make_checker); }

 private:
  Compiler compiler_;
  Loader loader_;
};

}  // namespace

}  // namespace moegen::cpu

extern "C" __attribute__((visibility("default"))) const moegen::cpu::Target* moegen_cpu_target(int version) {
  if (version != moegen::cpu::kTargetVersion) return nullptr;
  // Never destroyed: programs may outlive every static of the process.
  static const auto* target = new moegen::cpu::HostTarget;
  return target;
}
