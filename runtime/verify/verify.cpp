// SPDX-License-Identifier: Apache-2.0
#include "verify/verify.hpp"

#include <algorithm>
#include <array>

#include <moegen/error.hpp>

#include "cuda/device.hpp"
#include "verify/finalize_case.hpp"
#include "verify/indices_case.hpp"

namespace moegen::verify {
namespace {

// Cases above this would spend minutes on the host; they are tests/gpu's affair.
constexpr std::int64_t kMostHostBytes = std::int64_t{1} << 30;

std::vector<IndicesCase> indices_cases(const Options& options) {
  constexpr std::array<std::int64_t, 8> kPairs = {0, 1, 11, 197, 2500, 20660, 100000, 524288};
  std::vector<IndicesCase> cases;
  for (std::int64_t pairs : kPairs)
    for (IdPattern pattern : all_id_patterns())
      if (!options.quick || pairs <= 2500) cases.push_back({pairs, pattern, options.seed + cases.size()});
  return cases;
}

std::vector<FinalizeCase> finalize_cases(const Config& config, const Options& options) {
  constexpr std::array<std::int64_t, 6> kTokens = {0, 1, 7, 128, 4096, 16384};
  std::vector<FinalizeCase> cases;
  for (std::int64_t tokens : kTokens)
    for (RowPattern pattern : all_row_patterns()) {
      const FinalizeCase next{tokens, pattern, options.seed + cases.size()};
      const bool sparse = pattern == RowPattern::sparse;
      if (host_bytes(config, next) > kMostHostBytes || (options.quick && (tokens > 128 || sparse))) continue;
      if (!sparse || tokens == 7) cases.push_back(next);
    }
  return cases;
}

template <class Case>
KernelVerdict run_cases(Engine& engine, const Config& config, const std::string& name, const std::vector<Case>& cases,
                        const Options& options) {
  const Kernel kernel = engine.get(config, name);
  KernelVerdict verdict{name, cases.size(), 0, ""};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (options.progress) options.progress(name, cases[i].name(), i, cases.size());
    const auto wrong = run_case(kernel, config, cases[i]);
    if (!wrong) continue;
    if (verdict.failed++ == 0) verdict.first_failure = *wrong;
  }
  return verdict;
}

KernelVerdict verify_kernel(Engine& engine, const Config& config, const std::string& kernel, const Options& options) {
  if (kernel == "create_indices") return run_cases(engine, config, kernel, indices_cases(options), options);
  if (kernel == "finalize") return run_cases(engine, config, kernel, finalize_cases(config, options), options);
  throw Error(ErrorCode::internal, "verify has no cases for kernel '" + kernel + "'");
}

}  // namespace

Report verify(Engine& engine, const Config& config, const Options& options) {
  if (cuda::num_devices() == 0)
    throw Error(ErrorCode::unsupported,
                "verify needs a CUDA device and found none; 'moegen doctor' says what is missing");
  const cuda::PrimaryContext context;
  Report report;
  report.device = cuda::device_info(context.ordinal()).name;
  const std::vector<std::string> kernels = options.kernels.empty() ? available_kernels_of(config) : options.kernels;
  for (const std::string& kernel : kernels) {
    report.kernels.push_back(verify_kernel(engine, config, kernel, options));
    report.cases += report.kernels.back().cases;
    report.failed += report.kernels.back().failed;
  }
  return report;
}

}  // namespace moegen::verify
