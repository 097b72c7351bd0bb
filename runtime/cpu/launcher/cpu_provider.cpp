// SPDX-License-Identifier: Apache-2.0
#include "cpu/launcher/cpu_provider.hpp"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include <moegen/arch.hpp>
#include <moegen/error.hpp>

#include "cpu/launcher/library.hpp"
#include "cpu/launcher/loaded_kernel.hpp"
#include "cpu/target.hpp"

namespace moegen::cpu {
namespace {

const Target& required_target(const std::string& label) {
  std::string why;
  if (const Target* target = load_target(&why)) return *target;
  throw Error(ErrorCode::unsupported, fmt::format("{}: {}", label, why));
}

std::vector<std::string> names_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const EntryPlan& entry : plan.entries) names.push_back(entry.name);
  return names;
}

[[noreturn]] void refuse(const char* field, const std::string& value, const std::string& allowed) {
  throw Error(ErrorCode::config, fmt::format("engine options: cpu.{} is {}; allowed {}", field, value, allowed));
}

CpuOptions checked(CpuOptions options) {
  find_arch(options.arch);
  if (options.num_sms < 1 || options.num_sms > kMostCpuSms)
    refuse("num_sms", std::to_string(options.num_sms), fmt::format("1 to {}", kMostCpuSms));
  if (options.max_reports < 1) refuse("max_reports", "0", "1 or more");
  return options;
}

}  // namespace

Provider::Provider(const CpuOptions& options, Builder& builder) : options_(checked(options)), builder_(builder) {}

std::shared_ptr<const Kernel::State> Provider::make_ready(const Config& config, std::string_view name, int) {
  Plan plan = make_plan(config, name, find_arch(options_.arch));
  std::string label = label_of(plan);
  const Target& target = required_target(label);
  const Parts built = builder_.build(plan, file_of(config));
  const cache::Entry& object = *built.front().entry;  // on this target one part is all
  std::string why;
  auto program = target.load(object.payload, names_of(plan), why);
  // A name that nothing defines shows only here.
  if (!program)
    throw CompileError(fmt::format("{}: the object of {} cannot be linked", label, object.compiler), "", why);
  const Family& family = family_of(plan);
  return std::make_shared<LoadedKernel>(std::move(plan), family, std::move(label), target, std::move(program),
                                        options_);
}

}  // namespace moegen::cpu
