// SPDX-License-Identifier: Apache-2.0
// Loading a cubin, preparing devices and the launch path, with a family made for the purpose.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <moegen/error.hpp>
#include <moegen/kernel.hpp>

#include "bench/host_cost.hpp"
#include "cuda/device.hpp"
#include "cuda/loaded_kernel.hpp"
#include "cuda/module.hpp"
#include "fakes/fake_cuda.hpp"

using namespace moegen;

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;

}  // namespace

// Every allocation of this program comes through here; launches must make none.
void* operator new(std::size_t bytes) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

struct ToyArgs {
  static constexpr int kFamily = 42;
  const void* input = nullptr;
  std::int64_t count = 0;
  std::int64_t entry = 0;
  std::int64_t cluster = 1;
};

const ToyArgs& toy(const void* args) { return *static_cast<const ToyArgs*>(args); }

LaunchConstants toy_constants(const Plan& plan) { return {plan.args_bytes, 7}; }

Launch toy_launch(const LaunchConstants&, const LaunchDevice& device, const void* args) noexcept {
  return {.entry = static_cast<int>(toy(args).entry),
          .grid = toy(args).count == 0 ? 0u : static_cast<std::uint32_t>(device.num_sms),
          .cluster = static_cast<std::uint32_t>(toy(args).cluster)};
}

const char* toy_check(const LaunchConstants& constants, const LaunchDevice&, const void* args) noexcept {
  if (constants[1] != 7) return "the constants are not those of the plan";
  return toy(args).count < 0 ? "count is negative; allowed 0 or more" : nullptr;
}

std::int64_t toy_workspace(const LaunchConstants&, const LaunchDevice& device, const void* args) noexcept {
  return toy(args).count * device.num_sms;
}

Family toy_family() {
  Family family{};
  family.name = "toy";
  family.tag = ToyArgs::kFamily;
  family.constants = toy_constants;
  family.launch = toy_launch;
  family.check = toy_check;
  family.workspace_bytes = toy_workspace;
  return family;
}

const Family kToy = toy_family();

/// Hands over twice as many as the caller asked for.
const void* twice(const LaunchConstants&, const Launch&, const MapEncoder&, const void* args, void* buffer) {
  ToyArgs prepared = toy(args);
  prepared.count *= 2;
  return std::memcpy(buffer, &prepared, sizeof prepared);
}

Family preparing_family() {
  Family family = toy_family();
  family.prepare = twice;
  return family;
}

const Family kPreparing = preparing_family();

/// A plain entry point, one with clusters and a lot of shared memory, and a cooperative one that may start early.
Plan toy_plan() {
  Plan plan;
  plan.family = plan.kernel = "toy";
  plan.arch = find_arch("sm_90a");
  plan.config_name = "unit";
  plan.args_bytes = sizeof(ToyArgs);
  plan.entries.push_back({.name = "moegen_plain", .variant = "plain", .threads = 128});
  plan.entries.push_back(
      {.name = "moegen_cluster", .variant = "cluster", .threads = 256, .cluster = 16, .dynamic_shared_bytes = 100000});
  plan.entries.push_back({.name = "moegen_grid",
                          .variant = "grid",
                          .threads = 512,
                          .dynamic_shared_bytes = 1024,
                          .cooperative = true,
                          .dependent_launch = true});
  return plan;
}

constexpr const char* kLabel = "toy of 'unit' for sm_90a";

cuda::Module load(const Plan& plan, std::string_view compiler = "nvrtc-13.0") {
  return cuda::Module::load({{"\x7f"
                              "ELF",
                              compiler}},
                            kLabel, plan);
}

std::shared_ptr<cuda::LoadedKernel> loaded(const Family& family = kToy) {
  const Plan plan = toy_plan();
  return std::make_shared<cuda::LoadedKernel>(plan, family, kLabel, load(plan));
}

/// A kernel that is ready on `device`.
Kernel ready(int device = 0, const Family& family = kToy) {
  auto state = loaded(family);
  fake::set_current_device(device);
  state->prepare(cuda::device_info(device));
  return Kernel(std::move(state));
}

const cuda::LoadedKernel& of(const Kernel& kernel) { return static_cast<const cuda::LoadedKernel&>(kernel.state()); }

struct Fresh {
  Fresh() {
    fake::reset();
    fake::cuda().args_bytes = sizeof(ToyArgs);
  }
};

template <class Work>
std::string refusal(ErrorCode code, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE_FIXTURE(Fresh, "a launch has the plan's block, shared memory and grid, and passes the arguments on") {
  const Kernel kernel = ready();
  const ToyArgs args{.input = &args, .count = 5};
  auto* stream = reinterpret_cast<CUstream_st*>(0);
  kernel.run(args, stream);
  const fake::Launch& launch = fake::last_launch();
  CHECK(fake::num_launches() == 1);
  CHECK(launch.grid == 132);
  CHECK(launch.block == 128);
  CHECK(launch.shared == 0);
  CHECK(launch.num_attributes == 0);
  CHECK(launch.kernel == of(kernel).module().kernels()[0]);
  CHECK(std::memcmp(launch.args.data(), &args, sizeof args) == 0);
}

TEST_CASE_FIXTURE(Fresh, "what a family prepares is launched, also by the measure of a launch's host cost") {
  const Kernel kernel = ready(0, kPreparing);
  const ToyArgs args{.input = &args, .count = 5};
  const auto count = [] { return toy(fake::last_launch().args.data()).count; };
  kernel.run(args, nullptr);
  CHECK(count() == 10);
  const bench::HostCost cost = bench::host_cost(kernel, &args, sizeof args, cuda::Stream());
  CHECK(count() == 10);  // the last launch is a bare one
  CHECK(cost.run_ns > 0);
  CHECK(cost.bare_ns > 0);
}

TEST_CASE_FIXTURE(Fresh, "a cluster launch carries the size that the family picked") {
  const Kernel kernel = ready();
  kernel.run(ToyArgs{.count = 1, .entry = 1, .cluster = 12}, nullptr);
  CHECK(fake::last_launch().cluster == 12);
  CHECK(fake::last_launch().num_attributes == 1);
  CHECK(fake::last_launch().shared == 100000);
  CHECK(fake::last_launch().block == 256);
}

TEST_CASE_FIXTURE(Fresh, "cooperative and early launches carry their attributes") {
  const Kernel kernel = ready();
  kernel.run(ToyArgs{.count = 1, .entry = 2, .cluster = 1}, nullptr);
  CHECK(fake::last_launch().cooperative == 1);
  CHECK(fake::last_launch().dependent == 1);
  CHECK(fake::last_launch().cluster == 0);
  CHECK(fake::last_launch().num_attributes == 2);
  kernel.run(ToyArgs{.count = 1, .entry = 2, .cluster = 4}, nullptr);
  CHECK(fake::last_launch().num_attributes == 3);
  CHECK(fake::last_launch().cluster == 4);
}

TEST_CASE_FIXTURE(Fresh, "the stream goes through") {
  const Kernel kernel = ready();
  const cuda::Stream stream;
  kernel.run(ToyArgs{.count = 1}, stream.get());
  CHECK(fake::last_launch().stream == stream.get());
}

TEST_CASE_FIXTURE(Fresh, "a launch in a capture becomes part of the graph") {
  const Kernel kernel = ready();
  const cuda::Stream stream;
  const auto graph = cuda::Graph::capture(stream, [&] { kernel.run(ToyArgs{.count = 1}, stream.get()); });
  CHECK(fake::num_launches() == 0);
  graph.launch(stream);
  graph.launch(stream);
  CHECK(fake::num_launches() == 2);
}

TEST_CASE_FIXTURE(Fresh, "arguments without work launch nothing") {
  const Kernel kernel = ready();
  kernel.run(ToyArgs{.count = 0}, nullptr);
  CHECK(fake::num_launches() == 0);
}

TEST_CASE_FIXTURE(Fresh, "a bad argument is refused in the family's words and launches nothing") {
  const Kernel kernel = ready();
  CHECK(refusal(ErrorCode::config, [&] { kernel.run(ToyArgs{.count = -1}, nullptr); }) ==
        "toy of 'unit' for sm_90a: count is negative; allowed 0 or more");
  CHECK(fake::num_launches() == 0);
}

TEST_CASE_FIXTURE(Fresh, "arguments of another family, of another size or none are refused") {
  const Kernel kernel = ready();
  const ToyArgs args{.count = 1};
  CHECK(refusal(ErrorCode::config, [&] { kernel.run(&args, sizeof args, 7, nullptr); }) ==
        "toy of 'unit' for sm_90a: the arguments are of family 7; allowed those of 'toy' (42)");
  CHECK(refusal(ErrorCode::config, [&] { kernel.run(&args, 8, 42, nullptr); }) ==
        "toy of 'unit' for sm_90a: the argument struct has 8 bytes; allowed 32");
  CHECK(refusal(ErrorCode::config, [&] { kernel.run(nullptr, sizeof args, 42, nullptr); }) ==
        "toy of 'unit' for sm_90a: the argument struct is null");
  CHECK(refusal(ErrorCode::config, [&] { kernel.workspace_bytes(&args, 8); }) ==
        "toy of 'unit' for sm_90a: the argument struct has 8 bytes; allowed 32");
  CHECK(fake::num_launches() == 0);
}

TEST_CASE_FIXTURE(Fresh, "a device that was never prepared is refused") {
  fake::cuda().devices.resize(2);
  const Kernel kernel = ready(0);
  fake::set_current_device(1);
  CHECK(refusal(ErrorCode::driver, [&] { kernel.run(ToyArgs{.count = 1}, nullptr); }) ==
        "toy of 'unit' for sm_90a: device 1 is not prepared; call Engine::get once with that device current, before "
        "the first launch on it");
  CHECK(refusal(ErrorCode::driver, [&] {
          kernel.workspace_bytes(&kernel, sizeof(ToyArgs));
        }).find("device 1 is not prepared") != std::string::npos);
}

TEST_CASE_FIXTURE(Fresh, "a thread without a context is refused") {
  const Kernel kernel = ready();
  fake::set_current_device(-1);
  CHECK(refusal(ErrorCode::driver, [&] { kernel.run(ToyArgs{.count = 1}, nullptr); }) ==
        "toy of 'unit' for sm_90a: no CUDA context is current on this thread; make one current before a launch "
        "(cudaSetDevice, cuCtxSetCurrent)");
  fake::set_current_device(0);
  fake::cuda().fail["cuCtxGetDevice"] = 700;
  CHECK(refusal(ErrorCode::driver, [&] { kernel.run(ToyArgs{.count = 1}, nullptr); }) ==
        "toy of 'unit' for sm_90a: cuCtxGetDevice failed with CUDA_ERROR_ILLEGAL_ADDRESS (700: no description)");
}

TEST_CASE_FIXTURE(Fresh, "a launch that the driver refuses is an error with its words") {
  const Kernel kernel = ready();
  fake::cuda().fail["cuLaunchKernelEx"] = 1;
  CHECK(refusal(ErrorCode::driver, [&] { kernel.run(ToyArgs{.count = 1}, nullptr); }) ==
        "toy of 'unit' for sm_90a: cuLaunchKernelEx failed with CUDA_ERROR_INVALID_VALUE (1: invalid argument)");
}

TEST_CASE_FIXTURE(Fresh, "workspace is the family's to say, and none where it says nothing") {
  const Kernel kernel = ready();
  const ToyArgs args{.count = 3};
  CHECK(kernel.workspace_bytes(&args, sizeof args) == 3 * 132);
  Family silent = kToy;
  silent.workspace_bytes = nullptr;
  const Plan plan = toy_plan();
  auto state = std::make_shared<cuda::LoadedKernel>(plan, silent, kLabel, load(plan));
  CHECK(Kernel(std::move(state)).workspace_bytes(&args, sizeof args) == 0);
}

TEST_CASE_FIXTURE(Fresh, "a launch allocates nothing") {
  const Kernel kernel = ready();
  const ToyArgs args{.count = 1, .entry = 2, .cluster = 4};
  allocations = 0;
  counting = true;
  auto* proof = new int(1);
  counting = false;
  delete proof;
  CHECK(allocations == 1);  // the count works
  allocations = 0;
  counting = true;
  for (int i = 0; i < 1000; ++i) kernel.run(args, nullptr);
  counting = false;
  CHECK(allocations == 0);
  CHECK(fake::num_launches() == 1000);
}

TEST_CASE_FIXTURE(Fresh, "threads launch the same kernel at the same time") {
  const Kernel kernel = ready();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&kernel] {
      for (int j = 0; j < 500; ++j) kernel.run(ToyArgs{.count = 1, .entry = j % 3}, nullptr);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(fake::num_launches() == 2000);
}

TEST_CASE_FIXTURE(Fresh, "preparing sets shared memory and cluster attributes and loads every entry point") {
  fake::cuda().devices.resize(2);
  const Kernel kernel = ready(1);
  CHECK(fake::cuda().attributes ==
        std::vector<std::string>{"moegen_cluster@1:8=100000", "moegen_cluster@1:14=1", "moegen_grid@1:8=1024"});
  CHECK(fake::num_functions_loaded() == 3);
  CHECK(of(kernel).is_prepared(1));
  CHECK_FALSE(of(kernel).is_prepared(0));
  CHECK_FALSE(of(kernel).is_prepared(-1));
  CHECK_FALSE(of(kernel).is_prepared(cuda::kMaxDevices));
}

TEST_CASE_FIXTURE(Fresh, "a device is prepared once") {
  auto state = loaded();
  state->prepare(cuda::device_info(0));
  state->prepare(cuda::device_info(0));
  CHECK(fake::num_functions_loaded() == 3);
}

TEST_CASE_FIXTURE(Fresh, "the largest cluster is what the device can hold") {
  for (const auto& [fits, expected] :
       std::vector<std::pair<int, std::uint32_t>>{{16, 16}, {15, 8}, {8, 8}, {3, 2}, {1, 1}}) {
    fake::cuda().devices[0].max_cluster = fits;
    CHECK(load(toy_plan()).prepare(cuda::device_info(0)).max_cluster == expected);
  }
  fake::cuda().devices[0].clusters = false;
  CHECK(load(toy_plan()).prepare(cuda::device_info(0)).max_cluster == 1);
}

TEST_CASE_FIXTURE(Fresh, "a cluster size that the driver does not know counts as one that does not fit") {
  fake::cuda().fail["cuOccupancyMaxActiveClusters"] = 912;
  CHECK(load(toy_plan()).prepare(cuda::device_info(0)).max_cluster == 1);
  fake::cuda().fail["cuOccupancyMaxActiveClusters"] = 700;
  CHECK_THROWS_AS(load(toy_plan()).prepare(cuda::device_info(0)), Error);
}

TEST_CASE_FIXTURE(Fresh, "a cubin for another launcher is refused") {
  fake::cuda().args_bytes = 24;
  CHECK(refusal(ErrorCode::internal, [] { load(toy_plan()); }) ==
        "toy of 'unit' for sm_90a: entry point 'moegen_plain': the cubin takes an argument of 24 bytes, the launcher "
        "passes 32");
  fake::cuda().args_bytes = sizeof(ToyArgs);
  fake::cuda().num_params = 2;
  CHECK(refusal(ErrorCode::internal, [] { load(toy_plan()); }) ==
        "toy of 'unit' for sm_90a: entry point 'moegen_plain': the cubin takes more than one argument");
}

TEST_CASE_FIXTURE(Fresh, "an entry point that the cubin lacks is named") {
  fake::cuda().fail["cuLibraryGetKernel"] = 500;
  CHECK(refusal(ErrorCode::internal, [] { load(toy_plan()); }) ==
        "toy of 'unit' for sm_90a: entry point 'moegen_plain' is not in the cubin");
}

TEST_CASE_FIXTURE(Fresh, "a driver too old for a cubin is named as such") {
  fake::cuda().fail["cuLibraryLoadData"] = 200;
  CHECK(refusal(ErrorCode::unsupported, [] { load(toy_plan(), "nvrtc-13.2"); }) ==
        "toy of 'unit' for sm_90a: the driver supports CUDA 13.0 and refuses a cubin of nvrtc-13.2 with "
        "CUDA_ERROR_INVALID_IMAGE (200: device kernel image is invalid); update the driver to one for CUDA 13.2, or "
        "build with an NVRTC of CUDA 13.0");
}

TEST_CASE_FIXTURE(Fresh, "a cubin that a new enough driver refuses is a driver error") {
  fake::cuda().fail["cuLibraryLoadData"] = 200;
  for (const char* compiler : {"nvrtc-13.0", "nvrtc-12.9", "nvrtc-", "clang-19", ""})
    CHECK(refusal(ErrorCode::driver, [&] { load(toy_plan(), compiler); }) ==
          "toy of 'unit' for sm_90a: cuLibraryLoadData failed with CUDA_ERROR_INVALID_IMAGE (200: device kernel image "
          "is invalid)");
}

TEST_CASE_FIXTURE(Fresh, "every library that was loaded is unloaded, also after a failure") {
  {
    const auto state = loaded();
  }
  fake::cuda().fail["cuLibraryGetKernel"] = 1;
  CHECK_THROWS_AS(load(toy_plan()), Error);
  CHECK(fake::num_loads() == 2);
  CHECK(fake::num_unloads() == 2);
}

TEST_CASE_FIXTURE(Fresh, "a device beyond the table is unsupported") {
  auto state = loaded();
  cuda::DeviceInfo far = cuda::device_info(0);
  far.ordinal = cuda::kMaxDevices;
  CHECK(refusal(ErrorCode::unsupported, [&] { state->prepare(far); }) ==
        "toy of 'unit' for sm_90a: device 64 (Fake H200, sm_90) is beyond the 64 devices that one process can use");
}
