// SPDX-License-Identifier: Apache-2.0
// Every shipped config, and every option of the kernels, compiles for every arch without a spill.
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <moegen/config.hpp>
#include <moegen/error.hpp>
#include <moegen/source.hpp>

#include "cuda/nvrtc.hpp"
#include "support/row_tables.hpp"
#include "support/shard.hpp"
#include "support/shipped.hpp"
#include "support/skip.hpp"

namespace {

using namespace moegen;

struct Job {
  Config config;
  std::string kernel;
  const Arch* arch;
};

std::string compile_part(const cuda::Nvrtc& nvrtc, const Plan& plan, const std::string& name) {
  const Source source = emit_source(plan);
  const cuda::CompiledCubin cubin = nvrtc.compile(source.text, plan.kernel + ".cu", plan.arch, source.entries);
  if (cubin.resources.size() != source.entries.size()) return name + ": an entry has no resource report";
  for (const EntryResources& entry : cubin.resources)
    if (entry.spill_store_bytes + entry.spill_load_bytes + entry.stack_bytes > 0)
      return fmt::format("{}: {}: {} + {} bytes spilled, {} bytes of stack, {} registers", name, entry.entry,
                         entry.spill_store_bytes, entry.spill_load_bytes, entry.stack_bytes, entry.registers);
  return {};
}

// One sentence if the job does not compile cleanly, else "".
std::string compile(const cuda::Nvrtc& nvrtc, const Job& job) {
  const std::string name = fmt::format("{} of {} for {}", job.kernel, job.config->name, job.arch->name);
  try {
    for (const Plan& part : parts_of(make_plan(job.config, job.kernel, *job.arch)))
      if (std::string wrong = compile_part(nvrtc, part, name); !wrong.empty()) return wrong;
    return {};
  } catch (const Error& error) {
    return name + ": " + error.what();
  }
}

// All jobs over the machine's cores; every failure as one message.
void compile_all(const std::vector<Job>& jobs) {
  std::string why;
  const auto nvrtc = cuda::Nvrtc::load(&why);
  if (!nvrtc) test::skip(why);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      std::string wrong = compile(*nvrtc, jobs[i]);
      const std::scoped_lock lock(mutex);
      if (!wrong.empty()) failures.push_back(std::move(wrong));
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  for (const std::string& failure : failures) FAIL_CHECK(failure);
  MESSAGE(jobs.size() << " compiled");
}

// One config an option of a kernel.
const std::vector<std::string>& option_texts() {
  static const std::vector<std::string> texts = {
      R"("indices": {"experts": "all", "pad_rows_to": 128, "scales_offset": true, "ids": "int64"})",
      R"("indices": {"pad_rows_to": 4, "ids": "uint8", "first_expert": 8, "num_local_experts": 24})",
      R"("num_zero_experts": 3, "indices": {"ids": "uint16"})",
      R"("finalize": {"residual": true, "shared": true, "bias": true, "output": "float32"})",
      R"("finalize": {"shared": true, "down": "float32", "output": "float16"},
         "shared_experts": {"count": 1, "intermediate": 64, "gate": "sigmoid"})",
      R"("finalize": {"weights_applied": true, "down": "float16"})",
      R"json("finalize": {"epilogue": "value > 0 ? gelu_tanh(value) * gain : min(value, token + col)",
         "inputs": {"gain": {"dtype": "bfloat16", "shape": "columns"}}})json",
      R"("activation": {"kind": "swiglu_oai", "limit_per_expert": true, "gate_layout": "interleaved"},
         "indices": {"pad_rows_to": 64})",
      R"("activation": {"kind": "gelu", "gated": false}, "experts": {"weights_on_input": true})",
      R"json("activation": {"kind": "situ", "beta": 3.5, "linear_beta": 25.0},
         "experts": {"up_epilogue": "expert < 8 ? value * own : value + col",
                     "up_inputs": {"own": {"dtype": "float16", "shape": "experts_columns"}}})json",
      R"("quantization": {"scheme": "tensor"}, "dtypes": {"weight": "float8_e4m3fn", "activation": "float32"})",
      R"("quantization": {"scheme": "rowwise", "floor": 1e-30}, "dtypes": {"weight": "float8_e4m3fn"})",
      R"("quantization": {"scheme": "rowwise"}, "dtypes": {"weight": "float8_e4m3fn", "activation": "float32"},
         "experts": {"weights_on_input": true}, "expert_hidden": 65536)",
      R"("quantization": {"scheme": "block128", "scale_layout": "column"}, "dtypes": {"weight": "float8_e4m3fn"},
         "indices": {"pad_rows_to": 128})",
      R"("quantization": {"scheme": "block128", "scale": "float8_e8m0fnu"}, "dtypes": {"weight": "float8_e4m3fn"},
         "experts": {"weights_on_input": true})",
      R"("quantization": {"scheme": "rowwise"}, "dtypes": {"weight": "float8_e4m3fn"}, "finalize": {"down": "float32"})",
      R"("quantization": {"scheme": "block128"}, "dtypes": {"weight": "float8_e4m3fn"}, "finalize": {"down": "float32"})",
      R"("quantization": {"scheme": "mxfp8"}, "dtypes": {"weight": "float8_e4m3fn", "activation": "float16"})",
      R"("quantization": {"scheme": "mxfp4"}, "dtypes": {"weight": "float4_e2m1fn"})",
      R"("quantization": {"scheme": "nvfp4"}, "dtypes": {"weight": "float4_e2m1fn", "activation": "float32"},
         "experts": {"weights_on_input": true})"};
  return texts;
}

// False for a compile that only repeats another: the portable text of a matmul is the same for all archs that have fp8,
// and a matmul takes as long to compile as ten other kernels. One config has them all.
bool says_more(std::string_view kernel, const Arch& arch, std::string_view config) {
  if (!kernel.starts_with("grouped_matmul.") || config == "deepseek_v3") return true;
  return arch.name == "sm_80" || arch.name == "sm_90a";
}

// False for a matmul and an option of other kernels: its text is that of the option before; and for weights that it
// refuses.
bool reads(std::string_view kernel, std::string_view option) {
  if (!kernel.starts_with("grouped_matmul.")) return true;
  for (std::string_view refused : {"\"mxfp4\"", "\"nvfp4\""})
    if (option.find(refused) != std::string_view::npos) return false;
  for (std::string_view section : {"\"activation\": {", "\"experts\": {", "\"dtypes\": {"})
    if (option.find(section) != std::string_view::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("every shipped config compiles for every arch without a spill") {
  std::vector<Job> jobs;
  for (const auto& path : test::shipped_configs()) {
    const Config config = Config::from_file(path);
    for (const std::string& kernel : available_kernels_of(config))
      for (const Arch& arch : all_archs())
        if (says_more(kernel, arch, config->name)) jobs.push_back({config, kernel, &arch});
  }
  REQUIRE(jobs.size() >= 17 * 2 * 8);
  compile_all(jobs);
}

namespace {

// The up projections of shipped configs with rows gathered, on Hopper; those that weight the rows before refuse.
std::vector<Job> gathering_jobs(std::size_t step) {
  std::vector<Job> jobs;
  const auto paths = test::shipped_configs();
  for (std::size_t i = 0; i < paths.size(); i += step) {
    ConfigFields fields = Config::from_file(paths[i]).fields();
    if (fields.experts.weights_on_input) continue;
    fields.experts.gather_a = Choice::yes;
    const Config config = Config::from_fields(fields);
    for (const std::string& kernel : available_kernels_of(config))
      if (kernel == "grouped_matmul.up") jobs.push_back({config, kernel, &find_arch("sm_90a")});
  }
  return jobs;
}

}  // namespace

TEST_CASE("some shipped configs with gathered rows compile for Hopper without a spill") {
  const std::vector<Job> jobs = gathering_jobs(6);
  REQUIRE(jobs.size() >= 2);
  compile_all(jobs);
}

// Minutes: --no-skip.
TEST_CASE("every shipped config with gathered rows compiles for Hopper without a spill" * doctest::skip()) {
  const std::vector<Job> jobs = gathering_jobs(1);
  REQUIRE(jobs.size() >= 12);
  compile_all(jobs);
}

TEST_CASE("every option of the kernels compiles on the oldest arch and on Hopper") {
  std::vector<Job> jobs;
  for (const std::string& option : option_texts()) {
    const Config config = Config::from_json(fmt::format(
        R"({{"moegen": 1, "name": "option-{}", "hidden": 2880, "intermediate": 64, "num_experts": 64, "top_k": 6,
             "router": {{"scoring": "softmax", "shared_slots": {{"count": 2}}}}, {}}})",
        &option - option_texts().data(), option));
    for (const std::string& kernel : available_kernels_of(config))
      for (std::string_view arch : {"sm_80", "sm_90a"})
        if (reads(kernel, option)) jobs.push_back({config, kernel, &find_arch(arch)});
  }
  REQUIRE(jobs.size() >= option_texts().size() * 2 * 5);
  compile_all(jobs);
}

namespace {

// Both matmuls of a layer with `experts` experts, on Hopper. Biases have the dtype of activations.
void add_matmuls(std::vector<Job>& jobs, std::string_view quantization, std::string_view activation,
                 std::string_view gate, std::string_view expert_options, int experts) {
  const Config config = Config::from_json(fmt::format(
      R"({{"moegen": 1, "name": "matmul-{}", "hidden": 2048, "intermediate": 1536, "num_experts": {}, "top_k": 2,
           "router": {{"scoring": "softmax"}}, "quantization": {{{}}}, "activation": {{{}}}, "experts": {{{}}},
           "dtypes": {{"weight": "float8_e4m3fn", "activation": "{}"}}, "finalize": {{"down": "{}"}}}})",
      jobs.size(), experts, quantization, gate, expert_options, activation, activation));
  for (std::string_view kernel : {"grouped_matmul.up", "grouped_matmul.down"})
    jobs.push_back({config, std::string(kernel), &find_arch("sm_90a")});
}

}  // namespace

// Where registers are fewest: block scales beside biases of 32 bits, which spilled 60 and 72 bytes.
TEST_CASE("biases of 32 bits beside block scales compile for Hopper without a spill") {
  std::vector<Job> jobs;
  add_matmuls(jobs, R"("scheme": "block128")", "float32", R"("kind": "silu", "gated": false)", R"("bias": true)", 64);
  add_matmuls(jobs, R"("scheme": "block128", "scale_layout": "column")", "float32", R"("kind": "silu")",
              R"("bias": true, "fuse_activation": false)", 257);
  compile_all(jobs);
}

// Half an hour of a core: --no-skip, shared by processes with TABLE_SHARD.
TEST_CASE("every scheme, bias, dtype, gate and number of experts of a matmul compiles for Hopper" * doctest::skip()) {
  std::vector<Job> jobs;
  for (std::string_view quantization :
       {R"("scheme": "tensor")", R"("scheme": "rowwise")", R"("scheme": "block128")", R"("scheme": "mxfp8")",
        R"("scheme": "block128", "scale_layout": "column")", R"("scheme": "block128", "scale": "float8_e8m0fnu")"})
    for (std::string_view activation : {"bfloat16", "float32"})
      for (std::string_view gate : {R"("kind": "silu", "gated": false)", R"("kind": "silu")",
                                    R"("kind": "silu", "gate_layout": "interleaved")"})
        for (std::string_view options :
             {R"("bias": true)", R"("bias": false)", R"("bias": true, "fuse_activation": false)"})
          for (int experts : {8, 64, 257}) add_matmuls(jobs, quantization, activation, gate, options, experts);
  const test::Shard shard = test::table_shard();
  std::vector<Job> mine;
  for (std::size_t i = shard.first; i < jobs.size(); i += shard.step) mine.push_back(jobs[i]);
  compile_all(mine);
}

// One config a way through the router; 60 experts are no whole number of pieces of any load.
const std::vector<std::string>& router_texts() {
  static const std::vector<std::string> texts = {
      R"("scoring": "none", "normalize": false, "logits": "bfloat16")",
      R"("scoring": "softmax", "bias": "bfloat16", "num_groups": 4, "top_groups": 2, "logits": "float16")",
      R"("scoring": "softmax", "order": "select_then_score", "weights": "bfloat16")",
      R"("scoring": "sigmoid", "num_groups": 60, "top_groups": 20, "group_score": "max", "weights": "float16")",
      R"("scoring": "sqrt_softplus", "hash": {"vocab": 1000, "token_id": "int64"}, "shared_slots": {"count": 1})",
      R"json("scoring": "none", "scores": "sigmoid(logit) * gain + token", "bias": "float32",
             "inputs": {"gain": {"dtype": "float16", "shape": "experts"}})json"};
  return texts;
}

TEST_CASE("every way through the router compiles on the oldest arch and on Hopper") {
  std::vector<Job> jobs;
  for (const std::string& text : router_texts()) {
    const Config config = Config::from_json(fmt::format(
        R"({{"moegen": 1, "name": "router-{}", "hidden": 64, "intermediate": 64, "num_experts": 60, "top_k": 6,
             "router": {{{}}}}})",
        jobs.size() / 2, text));
    for (std::string_view arch : {"sm_80", "sm_90a"}) jobs.push_back({config, "router", &find_arch(arch)});
  }
  compile_all(jobs);
}

TEST_CASE("most experts that a config may have") {
  std::vector<Job> jobs;
  for (int experts : {513, 896, 1025, 2048})
    for (int pad : {1, 128}) {
      const Config config = Config::from_json(fmt::format(
          R"({{"moegen": 1, "name": "wide-{0}-{1}", "hidden": 64, "intermediate": 64, "num_experts": {0}, "top_k": 1,
               "router": {{"scoring": "softmax"}}, "indices": {{"pad_rows_to": {1}}}}})",
          experts, pad));
      for (const Arch& arch : all_archs()) jobs.push_back({config, "create_indices", &arch});
      for (std::string_view arch : {"sm_80", "sm_90a"})
        if (pad == 1) jobs.push_back({config, "router", &find_arch(arch)});
    }
  compile_all(jobs);
}

// Minutes: --no-skip, shared by processes with TABLE_SHARD. Plans bound the registers of kernels of rows.
TEST_CASE("every case of the tables of rows compiles on the oldest arch and on Hopper" * doctest::skip()) {
  std::vector<Job> jobs;
  const test::Shard shard = test::table_shard();
  const auto add = [&](const auto& table, std::string_view kernel) {
    for (std::size_t i = shard.first; i < table.size(); i += shard.step)
      for (std::string_view arch : {"sm_80", "sm_90a"})
        jobs.push_back({table.config(i), std::string(kernel), &find_arch(arch)});
  };
  add(test::QuantizeTable({}), "quantize.up");
  add(test::ActivationTable({}), "activation");
  add(test::PermuteTable({}), "permute");
  compile_all(jobs);
}
