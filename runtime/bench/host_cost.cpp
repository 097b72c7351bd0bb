// SPDX-License-Identifier: Apache-2.0
#include "bench/host_cost.hpp"

#include <chrono>
#include <vector>

#include "bench/median.hpp"
#include "cuda/driver.hpp"
#include "kernel_state.hpp"

namespace moegen::bench {
namespace {

constexpr int kBatch = 64;
constexpr int kRounds = 201;

template <class Body>
double batch_ns(const cuda::Stream& stream, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kBatch; ++i) body();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  stream.synchronize();
  return taken.count() / kBatch;
}

}  // namespace

HostCost host_cost(const Kernel& kernel, const void* args, std::size_t args_bytes, const cuda::Stream& stream) {
  const Kernel::State& state = kernel.state();
  const Launch what = state.family.launch(state.constants, state.current_device(), args);
  alignas(64) std::byte buffer[kMaxParameterBytes];
  const void* const prepared =
      state.family.prepare ? state.family.prepare(state.constants, what, state, args, buffer) : args;
  std::vector<double> run, bare;
  for (int round = 0; round < kRounds; ++round) {
    run.push_back(batch_ns(stream, [&] { kernel.run(args, args_bytes, state.family.tag, stream.get()); }));
    bare.push_back(batch_ns(stream, [&] { state.launch(what, prepared, stream.get()); }));
  }
  return {median(run), median(bare)};
}

}  // namespace moegen::bench
