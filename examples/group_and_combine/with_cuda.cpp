// SPDX-License-Identifier: Apache-2.0
// Runs both kernels on the GPU, captured into one CUDA graph that is replayed with other routings, and checks every
// sum.

#include <cuda_runtime_api.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <moegen/args/create_indices.h>
#include <moegen/args/finalize.h>
#include <moegen/shapes.hpp>

#include "reference.hpp"
#include "run_on_gpu.hpp"

namespace {

constexpr std::int64_t kNumTokens = 256;
constexpr unsigned kNumReplays = 10;

void check(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
}

/// Device memory for `size` elements, zero at first.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t size) : bytes_(static_cast<std::size_t>(size) * sizeof(T)) {
    check(cudaMalloc(&data_, bytes_), "cudaMalloc");
    check(cudaMemset(data_, 0, bytes_), "cudaMemset");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return static_cast<T*>(data_); }
  void upload(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::vector<T> download() const {
    std::vector<T> values(bytes_ / sizeof(T));
    check(cudaMemcpy(values.data(), data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// What both kernels read and write. The experts' matmuls would stand between them; here `down` is filled by hand.
struct Tensors {
  explicit Tensors(const moegen::Config& config)
      : num_pairs(kNumTokens * config->top_k),
        topk_ids(num_pairs),
        order(moegen::order_capacity(config.fields(), num_pairs)),
        starts(config->num_experts + 1),
        restore(num_pairs),
        expert_ids(config->num_experts),
        stats(2),
        down(num_pairs * config->hidden),
        weights(num_pairs),
        output(kNumTokens * config->hidden) {}

  std::int64_t num_pairs;
  DeviceArray<std::int32_t> topk_ids;
  DeviceArray<std::uint32_t> order, starts, restore;
  DeviceArray<std::int32_t> expert_ids;
  DeviceArray<std::uint32_t> stats;
  DeviceArray<std::uint16_t> down;  // bfloat16
  DeviceArray<float> weights, output;
};

moegen::create_indices::Args create_indices_args(const Tensors& tensors) {
  moegen::create_indices::Args args{};
  args.topk_ids = tensors.topk_ids.get();
  args.token_expert_order = tensors.order.get();
  args.expert_start_indices = tensors.starts.get();
  args.restore_token_order = tensors.restore.get();
  args.expert_ids = tensors.expert_ids.get();
  args.expert_usage_stats = tensors.stats.get();
  args.num_pairs = tensors.num_pairs;
  return args;
}

moegen::finalize::Args finalize_args(const Tensors& tensors) {
  moegen::finalize::Args args{};
  args.output = tensors.output.get();
  args.down = tensors.down.get();
  args.restore = tensors.restore.get();
  args.weights = tensors.weights.get();
  args.num_tokens = kNumTokens;
  return args;
}

/// bfloat16 bits of a value that bfloat16 holds exactly.
std::uint16_t to_bfloat16(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }

void upload_expert_rows(Tensors& tensors, std::size_t hidden) {
  std::vector<std::uint16_t> down;
  for (std::size_t row = 0; row < static_cast<std::size_t>(tensors.num_pairs); ++row)
    for (std::size_t column = 0; column < hidden; ++column)
      down.push_back(to_bfloat16(reference::expert_output(row, column)));
  tensors.down.upload(down);
  tensors.weights.upload(std::vector<float>(static_cast<std::size_t>(tensors.num_pairs), reference::kWeight));
}

std::size_t count_wrong(const Tensors& tensors, const moegen::Config& config, const std::vector<std::int32_t>& ids) {
  const auto top_k = static_cast<std::size_t>(config->top_k);
  const auto hidden = static_cast<std::size_t>(config->hidden);
  const std::vector<std::uint32_t> rows = reference::rows_of_pairs(ids, config->num_experts);
  const std::vector<float> output = tensors.output.download();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < output.size(); ++i)
    if (output[i] != reference::output(rows, top_k, i / hidden, i % hidden)) ++wrong;
  return wrong;
}

/// Captures what `record` launches on a stream. Kernel::run is legal here: everything slow was done by Engine::get.
template <class Record>
cudaGraphExec_t capture(cudaStream_t stream, const Record& record) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  record();
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return executable;
}

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace

int run_on_gpu(moegen::Engine& engine, const moegen::Config& config) {
  if (!has_gpu()) {
    std::puts("no GPU: nothing is run");
    return 0;
  }
  Tensors tensors(config);
  upload_expert_rows(tensors, static_cast<std::size_t>(config->hidden));

  const moegen::Kernel create_indices = engine.get(config, "create_indices");
  const moegen::Kernel finalize = engine.get(config, "finalize");
  auto grouping = create_indices_args(tensors);
  const DeviceArray<std::byte> workspace(
      static_cast<std::int64_t>(create_indices.workspace_bytes(&grouping, sizeof(grouping))));
  grouping.workspace = workspace.get();

  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  const cudaGraphExec_t graph = capture(stream, [&] {
    create_indices.run(grouping, stream);
    finalize.run(finalize_args(tensors), stream);
  });

  std::size_t wrong = 0;
  for (unsigned replay = 0; replay < kNumReplays; ++replay) {
    const auto ids = reference::random_ids(static_cast<std::size_t>(tensors.num_pairs), config->num_experts, replay);
    tensors.topk_ids.upload(ids);
    check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    wrong += count_wrong(tensors, config, ids);
  }
  check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("%u graph replays of %lld tokens: %zu wrong values\n", kNumReplays, static_cast<long long>(kNumTokens),
              wrong);
  return wrong == 0 ? 0 : 1;
}
