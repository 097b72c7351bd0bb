// SPDX-License-Identifier: Apache-2.0
#include "support/target_options.hpp"

#include <algorithm>

#include <fmt/core.h>

#include <moegen/arch.hpp>
#include <moegen/error.hpp>

namespace moegen::cli {
void TargetOptions::declare(Options& options) {
  options.choice("--target", target_, {"cuda", "cpu"}, "where to run: this machine's GPU, or its processor");
  options.choice("--schedule", schedule_, {"fair", "chaos"}, "cpu: in which order threads run (default: fair)");
  options.integer("--seeds", seeds_, 1, "N", "cpu: schedules to run under, with seeds 1 to N; implies chaos");
  options.choice("--async", async_, {"eager", "late", "random"},
                 "cpu: when asynchronous work takes place (default: late)");
  options.flag("--check", check_, "cpu: check memory accesses and races");
  options.text("--arch", arch_, "ARCH", "cpu: the GPU to model (default: sm_90a)");
  options.integer("--sms", num_sms_, 1, "N", "cpu: multiprocessors of the modelled GPU (default: 16)");
}

void TargetOptions::refuse_on_cuda(const std::string& command) const {
  const auto refuse = [&](bool given, const char* name) {
    if (given)
      throw Error(ErrorCode::config, fmt::format("{}: {} is for --target cpu; allowed without it", command, name));
  };
  refuse(!schedule_.empty(), "--schedule");
  refuse(seeds_.has_value(), "--seeds");
  refuse(!async_.empty(), "--async");
  refuse(check_, "--check");
  refuse(!arch_.empty(), "--arch");
  refuse(num_sms_.has_value(), "--sms");
}

CpuOptions TargetOptions::cpu_options() const {
  CpuOptions options;
  const bool chaos = schedule_ == "chaos" || (schedule_.empty() && seeds_);
  if (chaos) {
    options.schedule = Schedule::chaos;
    options.async_timing = AsyncTiming::random;
  }
  if (async_ == "eager") options.async_timing = AsyncTiming::eager;
  if (async_ == "late") options.async_timing = AsyncTiming::late;
  if (async_ == "random") options.async_timing = AsyncTiming::random;
  options.check = check_;
  if (!arch_.empty()) options.arch = find_arch(arch_).name;
  if (num_sms_) options.num_sms = static_cast<int>(*num_sms_);
  return options;
}

void TargetOptions::apply(const std::string& command, EngineOptions& engine) const {
  if (!on_cpu()) return refuse_on_cuda(command);
  if (schedule_ == "fair" && seeds_)
    throw Error(
        ErrorCode::config,
        fmt::format("{}: --seeds {} with --schedule fair, which has no seed; allowed with chaos", command, *seeds_));
  if (num_sms_ && *num_sms_ > kMostCpuSms)
    throw Error(ErrorCode::config, fmt::format("{}: --sms is {}; allowed 1 to {}", command, *num_sms_, kMostCpuSms));
  engine.target = Target::cpu;
  engine.cpu = cpu_options();
}

std::vector<CpuOptions> TargetOptions::schedules() const {
  CpuOptions options = cpu_options();
  std::vector<CpuOptions> all;
  for (std::int64_t seed = 1; seed <= seeds_.value_or(1); ++seed) {
    options.seed = static_cast<std::uint64_t>(seed);
    all.push_back(options);
  }
  return all;
}

}  // namespace moegen::cli
