// SPDX-License-Identifier: Apache-2.0
// Engine from a config to a launch: every place a kernel can come from, and every way it can fail to.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <moegen/source.hpp>

#include "cache/cache.hpp"
#include "cache/pack.hpp"
#include "cuda/loaded_kernel.hpp"
#include "runtime/engine_support.hpp"

using namespace moegen;
using namespace moegen::test;

namespace {

namespace fs = std::filesystem;

std::string key_of(const Plan& plan, EngineOptions options) {
  return Engine(std::move(options)).build(plan).keys.at(0);
}

/// A pack with the kernel of `plan`, its entry changed by `edit`.
template <class Edit>
fs::path make_pack(EngineFixture& fixture, const Plan& plan, Edit&& edit) {
  EngineOptions options = fixture.options();
  options.cache_dir = fixture.folder.path() / "pack_cache";
  cache::Entry entry = *Engine(options).entries(plan).at(0);
  edit(entry);
  const fs::path path = fixture.folder.path() / "unit.pack";
  cache::write_pack(path, {entry});
  fake::reset_nvrtc();
  return path;
}

fs::path make_pack(EngineFixture& fixture, const Plan& plan) {
  return make_pack(fixture, plan, [](cache::Entry&) {});
}

/// The last launch of the fake driver against what the family asked for.
void check_last_launch(const Kernel& kernel, const create_indices::Args& args, const LaunchDevice& device) {
  const Launch wanted = find_family("create_indices")->launch(kernel.state().constants, device, &args);
  const EntryPlan& entry = kernel.plan().entries.at(static_cast<std::size_t>(wanted.entry));
  const fake::Launch& got = fake::last_launch();
  const auto& loaded = static_cast<const cuda::LoadedKernel&>(kernel.state());
  CHECK(got.kernel == loaded.module().kernels().at(static_cast<std::size_t>(wanted.entry)));
  CHECK(got.grid == wanted.grid);
  CHECK(got.block == static_cast<unsigned int>(entry.threads));
  CHECK(got.shared == static_cast<unsigned int>(entry.dynamic_shared_bytes));
  CHECK(got.cluster == (wanted.cluster > 1 ? static_cast<int>(wanted.cluster) : 0));
  CHECK(got.cooperative == (entry.cooperative ? 1 : 0));
  CHECK(got.dependent == (entry.dependent_launch ? 1 : 0));
}

/// Entry points of the small config's kernel on sm_90a: each is loaded once for each device.
int num_entries() { return static_cast<int>(small_plan().entries.size()); }

template <class Work>
double best_nanoseconds(int rounds, int calls, Work&& work) {
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) work();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / calls);
  }
  return best;
}

}  // namespace

TEST_CASE_FIXTURE(EngineFixture, "get compiles, loads and prepares; the kernel runs as its family wants") {
  Engine engine(options());
  const Kernel kernel = engine.get(small_config(), "create_indices");
  CHECK(fake::num_compiles() == 1);
  CHECK(fake::num_loads() == 1);
  CHECK(fake::nvrtc().last_name == "create_indices.cu");
  CHECK(kernel.plan().kernel == "create_indices");
  CHECK(kernel.plan().arch.name == "sm_90a");
  bool saw_cluster = false;
  for (const std::int64_t num_pairs : {0, 64, 4096, 1 << 16, 1 << 20}) {
    const create_indices::Args args = some_args(num_pairs);
    kernel.run(args, nullptr);
    check_last_launch(kernel, args, {.num_sms = 132, .max_cluster = 16});
    saw_cluster = saw_cluster || fake::last_launch().cluster > 1;
  }
  CHECK(fake::num_launches() == 5);
  CHECK(saw_cluster);
}

TEST_CASE_FIXTURE(EngineFixture, "the second get touches nothing but memory") {
  Engine engine(options());
  const Config config = small_config();
  const Kernel first = engine.get(config, "create_indices");
  const Kernel second = engine.get(config, "create_indices");
  CHECK(&first.state() == &second.state());
  CHECK(fake::num_compiles() == 1);
  CHECK(fake::num_loads() == 1);
  CHECK(fake::num_functions_loaded() == num_entries());
}

TEST_CASE_FIXTURE(EngineFixture, "kernels of one config and of two stay apart") {
  Engine engine(options());
  const Config config = small_config();
  const Config other = Config::from_json(R"({"moegen": 1, "name": "other", "hidden": 1024, "intermediate": 512,
                                            "num_experts": 64, "top_k": 4, "router": {"scoring": "sigmoid"},
                                            "indices": {"pad_rows_to": 16}})");
  CHECK(engine.get(config, "create_indices").plan().config_name == "unit");
  CHECK(engine.get(other, "create_indices").plan().config_name == "other");
  fake::cuda().args_bytes = 152;
  CHECK(engine.get(config, "finalize").plan().kernel == "finalize");
  CHECK(fake::num_loads() == 3);
}

TEST_CASE_FIXTURE(EngineFixture, "a kernel outlives its engine") {
  const auto make = [this] { return Engine(options()).get(small_config(), "create_indices"); };
  const Kernel kernel = make();
  kernel.run(some_args(), nullptr);
  CHECK(fake::num_launches() == 1);
}

TEST_CASE_FIXTURE(EngineFixture, "build needs no context, and says where a kernel came from") {
  fake::set_current_device(-1);
  Engine engine(options());
  const BuildReport compiled = engine.build(small_plan());
  CHECK(compiled.status == BuildStatus::compiled);
  CHECK(compiled.kernel == "create_indices");
  CHECK(compiled.arch == "sm_90a");
  CHECK(compiled.target == "cuda");
  CHECK(compiled.cubin_bytes > 0);
  REQUIRE(compiled.keys.size() == 1);
  CHECK(compiled.keys[0].size() == 32);
  REQUIRE(compiled.resources.size() == emit_source(small_plan()).entries.size());
  CHECK(compiled.resources[0].entry == small_plan().entries[0].name);
  CHECK(compiled.resources[0].registers == 40);
  CHECK(engine.build(small_plan()).status == BuildStatus::memory);
  Engine again(options());
  CHECK(again.build(small_plan()).status == BuildStatus::cached);
  CHECK(again.build(small_plan()).keys == compiled.keys);
  CHECK(fake::num_compiles() == 1);
  CHECK(fake::num_loads() == 0);
  CHECK(log.lines().empty());
}

TEST_CASE_FIXTURE(EngineFixture, "entries give what build stored") {
  Engine engine(options());
  const auto entries = engine.entries(small_plan());
  REQUIRE(entries.size() == 1);
  const auto& entry = entries[0];
  CHECK(engine.build(small_plan()).cubin_bytes == entry->payload.size());
  CHECK(
      entry->payload.starts_with("\x7f"
                                 "ELF"));
  CHECK(entry->compiler == "nvrtc-98.7");
  CHECK(entry->target == "cuda");
  CHECK(entry->arch == "sm_90a");
  CHECK(entry->launch_abi == small_plan().launch_abi);
  CHECK(entry->args_bytes == small_plan().args_bytes);
}

TEST_CASE_FIXTURE(EngineFixture, "a matmul's entry points are compiled at the same time, and stored and loaded apart") {
  fake::cuda().args_bytes = static_cast<std::size_t>(small_plan("grouped_matmul.up").parameter_bytes);
  const Plan plan = small_plan("grouped_matmul.up");
  const std::size_t entries = plan.entries.size();
  REQUIRE(entries >= 2);
  {
    Engine engine(options());
    const BuildReport report = engine.build(plan);
    CHECK(fake::num_compiles() == static_cast<int>(entries));
    CHECK(report.status == BuildStatus::compiled);
    REQUIRE(report.keys.size() == entries);
    CHECK(std::set<std::string>(report.keys.begin(), report.keys.end()).size() == entries);
    REQUIRE(report.resources.size() == entries);
    for (std::size_t i = 0; i < entries; ++i) CHECK(report.resources[i].entry == plan.entries[i].name);
    const std::vector<Plan> parts = engine.parts(plan);
    REQUIRE(parts.size() == entries);
    for (std::size_t i = 0; i < entries; ++i) {
      CHECK(engine.build(parts[i]).keys == std::vector<std::string>{report.keys[i]});
      CHECK(engine.build(parts[i]).status == BuildStatus::memory);
    }
  }
  Engine engine(options());
  engine.get(small_config(), "grouped_matmul.up");
  CHECK(fake::num_compiles() == static_cast<int>(entries));
  CHECK(fake::num_loads() == static_cast<int>(entries));
  CHECK(fake::num_functions_loaded() == static_cast<int>(entries));
}

TEST_CASE_FIXTURE(EngineFixture, "the first part that fails is the one that is told, after all have ended") {
  const Plan plan = small_plan("grouped_matmul.up");
  fake::nvrtc().spilling_entry = plan.entries[1].name;
  Engine engine(options());
  const std::string told = refusal(ErrorCode::compile, [&] { engine.build(plan); });
  CHECK(told.starts_with("grouped_matmul.up of 'unit' for sm_90a (" + plan.entries[1].variant + "): entry point '" +
                         plan.entries[1].name + "' spills registers"));
  fake::nvrtc().spilling_entry.clear();
  const int before = fake::num_compiles();
  CHECK(engine.build(plan).status == BuildStatus::compiled);
  CHECK(fake::num_compiles() - before == 1);  // the others are kept
}

TEST_CASE_FIXTURE(EngineFixture, "threads that want the same matmul compile each of its entry points once") {
  fake::nvrtc().milliseconds = 20;
  Engine engine(options());
  const Plan plan = small_plan("grouped_matmul.down");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { engine.build(plan); });
  for (std::thread& thread : threads) thread.join();
  CHECK(fake::num_compiles() == static_cast<int>(plan.entries.size()));
}

TEST_CASE_FIXTURE(EngineFixture, "an entry of the user cache is current while its compiler is on the machine") {
  EngineOptions elsewhere = options();
  elsewhere.cache_dir = folder.path() / "elsewhere";
  cache::Entry old = *Engine(elsewhere).entries(small_plan()).at(0);
  old.compiler = "nvrtc-1.2";
  cache::Options store;
  store.directory = options().cache_dir;
  cache::Cache(store).find_or_compile(cache::CacheKey(old.key_fields), old.compiler, [&] { return old; });
  CHECK(Engine(strict_options()).build(small_plan()).status == BuildStatus::cached);  // nothing else to be had
  CHECK(Engine(options()).build(small_plan()).status == BuildStatus::compiled);
  CHECK(Engine(options()).build(small_plan()).status == BuildStatus::cached);
  CHECK(fake::num_compiles() == 2);
}

TEST_CASE_FIXTURE(EngineFixture, "strict mode: a miss names the key and the command that builds it") {
  const std::string key = key_of(small_plan(), [&] {
    EngineOptions elsewhere = options();
    elsewhere.cache_dir = folder.path() / "elsewhere";
    return elsewhere;
  }());
  Engine engine(strict_options());
  CHECK(refusal(ErrorCode::unsupported, [&] { engine.build(small_plan()); }) ==
        "create_indices of 'unit' for sm_90a: in no pack and not in the cache (key " + key +
            "), and compiling is off (MOEGEN_JIT=off); build it with `moegen build 'unit.json' --kernel create_indices "
            "--arch sm_90a`");
  CHECK(refusal(ErrorCode::unsupported, [&] { engine.get(small_config(), "create_indices"); }).find(key) !=
        std::string::npos);
  CHECK(fake::num_compiles() == 1);
}

TEST_CASE_FIXTURE(EngineFixture, "strict mode takes what the cache holds") {
  {
    Engine(options()).build(small_plan());
  }
  Engine engine(strict_options());
  CHECK(engine.build(small_plan()).status == BuildStatus::cached);
  engine.get(small_config(), "create_indices").run(some_args(), nullptr);
  CHECK(fake::num_launches() == 1);
}

TEST_CASE_FIXTURE(EngineFixture, "strict mode takes a pack of any compiler") {
  EngineOptions wanted = strict_options();
  wanted.packs = {make_pack(*this, small_plan(), [](cache::Entry& entry) { entry.compiler = "nvrtc-12.9"; })};
  Engine engine(wanted);
  CHECK(engine.build(small_plan()).status == BuildStatus::pack);
  engine.get(small_config(), "create_indices").run(some_args(), nullptr);
  CHECK(fake::num_compiles() == 0);
}

TEST_CASE_FIXTURE(EngineFixture, "a pack goes before the compiler") {
  EngineOptions wanted = options();
  wanted.packs = {make_pack(*this, small_plan())};
  CHECK(Engine(wanted).build(small_plan()).status == BuildStatus::pack);
  CHECK(fake::num_compiles() == 0);
}

TEST_CASE_FIXTURE(EngineFixture, "a pack for another launcher is left aside with one warning, and compiled anew") {
  EngineOptions wanted = options();
  wanted.packs = {make_pack(*this, small_plan(), [](cache::Entry& entry) { entry.launch_abi += 1; })};
  Engine engine(wanted);
  const BuildReport report = engine.build(small_plan());
  CHECK(report.status == BuildStatus::compiled);
  CHECK(log.lines() == std::vector<std::string>{"warning: create_indices of 'unit' for sm_90a: the stored entry " +
                                                report.keys[0] + " is left aside: launch ABI 2, allowed 1"});
  engine.get(small_config(), "create_indices").run(some_args(), nullptr);
  CHECK(fake::num_launches() == 1);
}

TEST_CASE_FIXTURE(EngineFixture, "strict mode: a pack for another launcher is an error that says so") {
  for (const auto& [edit, fact] : std::vector<std::pair<void (*)(cache::Entry&), std::string>>{
           {[](cache::Entry& entry) { entry.launch_abi = 7; }, "launch ABI 7, allowed 1"},
           {[](cache::Entry& entry) { entry.args_bytes = 8; }, "arguments of 8 bytes, allowed 72"},
           {[](cache::Entry& entry) { entry.arch = "sm_80"; }, "arch 'sm_80', allowed 'sm_90a'"},
           {[](cache::Entry& entry) { entry.target = "cpu"; }, "target 'cpu', allowed 'cuda'"}}) {
    EngineOptions wanted = strict_options();
    wanted.packs = {make_pack(*this, small_plan(), edit)};
    CHECK(refusal(ErrorCode::unsupported, [&] {
            Engine(wanted).build(small_plan());
          }).find("stored, but with " + fact) != std::string::npos);
  }
}

TEST_CASE_FIXTURE(EngineFixture, "where nothing can be compiled, a lesser arch that runs on the device is taken") {
  fake::cuda().devices[0] = fake::Device{.name = "Fake L4", .major = 8, .minor = 9, .num_sms = 58, .clusters = false};
  EngineOptions wanted = strict_options();
  wanted.packs = {make_pack(*this, small_plan("create_indices", "sm_80"))};
  Engine engine(wanted);
  const Kernel kernel = engine.get(small_config(), "create_indices");
  CHECK(kernel.plan().arch.name == "sm_80");
  kernel.run(some_args(1 << 20), nullptr);
  check_last_launch(kernel, some_args(1 << 20), {.num_sms = 58, .max_cluster = 1});
}

TEST_CASE_FIXTURE(EngineFixture, "a kernel that spills is refused, and not stored") {
  fake::nvrtc().spilling_entry = "moegen_create_indices";
  Engine engine(options());
  try {
    engine.build(small_plan());
    FAIL("nothing was thrown");
  } catch (const CompileError& error) {
    CHECK(std::string(error.what()) ==
          "create_indices of 'unit' for sm_90a: entry point 'moegen_create_indices' spills registers: 24 bytes stored, "
          "16 loaded; allowed 0");
    CHECK(error.source() == emit_source(small_plan()).text);
    CHECK(error.log().find("24 bytes spill stores") != std::string_view::npos);
  }
  fake::nvrtc().spilling_entry.clear();
  CHECK(engine.build(small_plan()).status == BuildStatus::compiled);
}

TEST_CASE_FIXTURE(EngineFixture, "with templates of one's own a spill is a warning") {
  const fs::path templates = folder.path() / "templates";
  fs::copy(fs::path(MOEGEN_SOURCE_DIR) / "templates", templates, fs::copy_options::recursive);
  EngineOptions wanted = options();
  wanted.template_dir = templates;
  fake::nvrtc().spilling_entry = "moegen_create_indices";
  Engine engine(wanted);
  CHECK(engine.build(small_plan()).status == BuildStatus::compiled);
  CHECK(log.lines() ==
        std::vector<std::string>{"warning: create_indices of 'unit' for sm_90a: entry point 'moegen_create_indices' "
                                 "spills registers: 24 bytes stored, 16 loaded; 0 would be faster"});
}

TEST_CASE_FIXTURE(EngineFixture, "a spill beside an expression of the config's is a warning") {
  fake::nvrtc().spilling_entry = "moegen_finalize";
  const Config config = Config::from_json(
      R"({"moegen": 1, "name": "unit", "hidden": 2048, "intermediate": 768, "num_experts": 128, "top_k": 8,
          "router": {"scoring": "softmax"}, "finalize": {"epilogue": "value * 2.0"}})");
  Engine engine(options());
  CHECK(engine.build(make_plan(config, "finalize", find_arch("sm_90a"))).status == BuildStatus::compiled);
  CHECK(log.lines() ==
        std::vector<std::string>{"warning: finalize of 'unit' for sm_90a: entry point 'moegen_finalize' spills "
                                 "registers: 24 bytes stored, 16 loaded; 0 would be faster"});
}

TEST_CASE_FIXTURE(EngineFixture, "a template folder that is none is refused") {
  EngineOptions wanted = options();
  wanted.template_dir = folder.path() / "none";
  CHECK(refusal(ErrorCode::config, [&] { Engine engine(wanted); }).find("none") != std::string::npos);
}

TEST_CASE_FIXTURE(EngineFixture, "a template folder that lacks a file is refused when a kernel needs it") {
  const fs::path templates = folder.path() / "templates", kernel = templates / "create_indices/kernel.cuh";
  fs::copy(fs::path(MOEGEN_SOURCE_DIR) / "templates", templates, fs::copy_options::recursive);
  fs::remove(kernel);
  fs::create_symlink("kernel.cuh", kernel);  // leads to itself
  EngineOptions wanted = options();
  wanted.template_dir = templates;
  Engine engine(wanted);
  CHECK(refusal(ErrorCode::config, [&] { engine.get(small_config(), "create_indices"); }) ==
        "template folder '" + templates.string() +
            "' holds no create_indices/kernel.cuh; it must be a copy of moegen's templates/");
}

TEST_CASE_FIXTURE(EngineFixture, "a compile that failed leaves nothing behind: the next one may succeed") {
  fake::nvrtc().failure = "x.cu(1): error: seeded\n";
  Engine engine(options());
  CHECK(refusal(ErrorCode::compile, [&] { engine.get(small_config(), "create_indices"); }) ==
        "create_indices.cu for sm_90a: nvrtc-98.7 says NVRTC_ERROR_COMPILATION: x.cu(1): error: seeded");
  fake::nvrtc().failure.clear();
  CHECK_NOTHROW(engine.get(small_config(), "create_indices"));
}

TEST_CASE_FIXTURE(EngineFixture, "a load that failed leaves nothing behind: the next get may succeed") {
  Engine engine(options());
  fake::cuda().fail["cuLibraryLoadData"] = 1;
  CHECK(refusal(ErrorCode::driver, [&] {
          engine.get(small_config(), "create_indices");
        }).find("cuLibraryLoadData failed") != std::string::npos);
  fake::cuda().fail.clear();
  fake::cuda().fail["cuFuncLoad"] = 1;
  CHECK(refusal(ErrorCode::driver, [&] { engine.get(small_config(), "create_indices"); }).find("cuFuncLoad failed") !=
        std::string::npos);
  fake::cuda().fail.clear();
  CHECK_NOTHROW(engine.get(small_config(), "create_indices"));
}

TEST_CASE_FIXTURE(EngineFixture, "a device that moegen has no arch for is unsupported") {
  fake::cuda().devices[0] = fake::Device{.name = "Fake T4", .major = 7, .minor = 5};
  Engine engine(options());
  CHECK(refusal(ErrorCode::unsupported, [&] { engine.get(small_config(), "create_indices"); }) ==
        "device 0 (Fake T4, sm_75): moegen compiles for no arch that runs on it; it has sm_80, sm_86, sm_89, sm_90, "
        "sm_90a, sm_100a, sm_103a, sm_120a");
}

TEST_CASE_FIXTURE(EngineFixture, "names of kernels that are not there are refused by the planner") {
  Engine engine(options());
  CHECK(refusal(ErrorCode::config, [&] { engine.get(small_config(), "create_indexes"); }).find("did you mean") !=
        std::string::npos);
  CHECK(refusal(ErrorCode::unsupported, [&] { engine.get(small_config(), "ep_combine"); }).find("ep_combine") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(EngineFixture, "one load serves all devices of an arch, each prepared by its own get") {
  fake::cuda().devices.resize(2);
  Engine engine(options());
  const Kernel kernel = engine.get(small_config(), "create_indices");
  fake::set_current_device(1);
  CHECK(refusal(ErrorCode::driver, [&] { kernel.run(some_args(), nullptr); }).find("device 1 is not prepared") !=
        std::string::npos);
  engine.get(small_config(), "create_indices");
  kernel.run(some_args(), nullptr);
  CHECK(fake::num_launches() == 1);
  CHECK(fake::num_loads() == 1);
  CHECK(fake::num_functions_loaded() == 2 * num_entries());
}

TEST_CASE_FIXTURE(EngineFixture, "devices of two archs get a kernel each") {
  fake::cuda().devices.push_back(fake::Device{.name = "Fake A100", .major = 8, .num_sms = 108, .clusters = false});
  Engine engine(options());
  CHECK(engine.get(small_config(), "create_indices").plan().arch.name == "sm_90a");
  fake::set_current_device(1);
  CHECK(engine.get(small_config(), "create_indices").plan().arch.name == "sm_80");
  CHECK(fake::num_loads() == 2);
}

TEST_CASE_FIXTURE(EngineFixture, "without a current context get says what to do") {
  fake::set_current_device(-1);
  Engine engine(options());
  CHECK(refusal(ErrorCode::driver, [&] { engine.get(small_config(), "create_indices"); }).find("make one current") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(EngineFixture, "threads that ask together share one compile and one load") {
  fake::nvrtc().milliseconds = 20;
  fake::cuda().devices.resize(2);
  Engine engine(options());
  const Config config = small_config();
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      fake::set_current_device(i % 2);
      for (int j = 0; j < 50; ++j) {
        engine.get(config, "create_indices").run(some_args(), nullptr);
        ++ran;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(ran == 400);
  CHECK(fake::num_launches() == 400);
  CHECK(fake::num_compiles() == 1);
  CHECK(fake::num_loads() == 1);
  CHECK(fake::num_functions_loaded() == 2 * num_entries());
}

TEST_CASE_FIXTURE(EngineFixture, "threads that build different kernels do not wait for each other's lock") {
  Engine engine(options());
  std::vector<std::thread> threads;
  std::atomic<int> compiled{0};
  for (const Arch& arch : all_archs())
    threads.emplace_back([&engine, &compiled, &arch] {
      const Plan plan = small_plan("finalize", std::string(arch.name).c_str());
      if (engine.build(plan).status == BuildStatus::compiled) ++compiled;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(compiled == static_cast<int>(all_archs().size()));
}

TEST_CASE_FIXTURE(EngineFixture, "the log keeps to its level") {
  for (const auto& [level, lines] : std::vector<std::pair<LogLevel, std::size_t>>{
           {LogLevel::off, 0}, {LogLevel::warning, 0}, {LogLevel::info, 1}, {LogLevel::debug, 2}}) {
    const std::size_t before = log.lines().size();
    EngineOptions wanted = options();
    wanted.log_level = level;
    wanted.cache_dir = folder.path() / std::to_string(static_cast<int>(level));
    Engine(wanted).build(small_plan());
    CHECK(log.lines().size() - before == lines);
  }
  CHECK(log.lines().front() == "create_indices of 'unit' for sm_90a: compiling with nvrtc-98.7");
}

TEST_CASE_FIXTURE(EngineFixture, "an engine moves and keeps its options") {
  EngineOptions wanted = options();
  wanted.cache_max_bytes = 12345;
  Engine first(wanted);
  Engine second(std::move(first));
  CHECK(second.options().cache_max_bytes == 12345);
  CHECK_NOTHROW(second.get(small_config(), "create_indices"));
}

TEST_CASE_FIXTURE(EngineFixture, "get of a resolved kernel takes under a microsecond") {
  Engine engine(options());
  const Config config = small_config();
  engine.get(config, "create_indices");
  const double nanoseconds = best_nanoseconds(50, 2000, [&] { engine.get(config, "create_indices"); });
  MESSAGE("get of a resolved kernel: " << nanoseconds << " ns");
  if (kTimed) CHECK(nanoseconds < 1000);
}

TEST_CASE_FIXTURE(EngineFixture, "get from disk takes under a millisecond") {
  {
    Engine(options()).build(small_plan());
  }
  const Config config = small_config();
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 20; ++i) engines.push_back(std::make_unique<Engine>(options()));
  std::size_t next = 0;
  const double nanoseconds = best_nanoseconds(20, 1, [&] { engines[next++]->get(config, "create_indices"); });
  MESSAGE("get from disk, with a driver that loads in no time: " << nanoseconds / 1e6 << " ms");
  if (kTimed) CHECK(nanoseconds < 1e6);
  CHECK(fake::num_compiles() == 1);
}
