// SPDX-License-Identifier: Apache-2.0
// Compiling kernel text for the host: what shipped configs emit, located errors, parameters, shared memory, places, and
// which accesses the checks are told of.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <moegen/config.hpp>
#include <moegen/plan.hpp>
#include <moegen/source.hpp>

#include "compile_support.hpp"
#include "support/shipped.hpp"

namespace {

using namespace moegen;
using namespace moegen::cpu;
using cpu::test::build;
using cpu::test::compile;
using cpu::test::compiler;
using cpu::test::loader;
using cpu::test::OneThread;
using cpu::test::Recorded;

}  // namespace

TEST_CASE("every kernel of every shipped config compiles without a word") {
  std::size_t number = 0, compiled = 0, checked = 0;
  for (const auto& path : moegen::test::shipped_configs()) {
    const Config config = Config::from_file(path);
    // Archs in turn, and checks on and off so that each kernel meets both for each arch; all of it would take a minute.
    const std::size_t num_archs = all_archs().size();
    const Arch& arch = all_archs()[number % num_archs];
    bool check = (number + number / num_archs) % 2 != 0;
    for (const std::string& kernel : available_kernels_of(config)) {
      const Source source = emit_source(make_plan(config, kernel, arch));
      CAPTURE(path.filename());
      CAPTURE(kernel);
      CAPTURE(arch.name);
      CAPTURE(check);
      const CompiledObject object = compile(source.text, source.entries, check, arch.name);
      CHECK(object.log == "");
      CHECK(object.object.substr(1, 3) == "ELF");
      compiled += 1;
      checked += check;
      check = !check;
    }
    number += 1;
  }
  CHECK(compiled >= 2 * all_archs().size());
  CHECK(checked >= all_archs().size());
}

TEST_CASE("a cached object is ready in less than 2 ms") {
  std::string text = "extern \"C\" __global__ void k(int* p, int n) {\n";
  for (int i = 0; i < 200; ++i) text += fmt::format("  if (n > {}) p[{}] = p[{}] * {};\n", i, i, i + 1, i + 3);
  const std::string object = compile(text + "}\n", {"k"}, true).object;
  CHECK(object.size() > 10000);  // as large as a real kernel's
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    std::string why;
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(loader().load(object, {"k"}, why));
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  MESSAGE(fmt::format("{} bytes loaded in {:.2f} ms", object.size(), best));
  CHECK(best < 2.0);
}

TEST_CASE("errors and warnings name the text's own file and line") {
  const std::string text =
      "__device__ int helper(int x) { return x; }\n"
      "extern \"C\" __global__ void broken(int* p) {\n"
      "  *p = helper(missing);\n"
      "}\n";
  const CompiledObject error = compile(text, {"broken"});
  CHECK(error.object == "");
  CHECK(error.log.starts_with("kernel.cu:3:15: error: use of undeclared identifier 'missing'\n"));

  const CompiledObject warning = compile("extern \"C\" __global__ void k(int* p) {\n  *p == 1;\n}\n", {"k"});
  CHECK(!warning.object.empty());
  CHECK(warning.log.starts_with("kernel.cu:2:6: warning: equality comparison result unused"));

  const CompiledObject entry = compile("extern \"C\" __global__ void k(int* p) {}\n", {"other"});
  CHECK(entry.object == "");
  CAPTURE(entry.log);
  CHECK(entry.log.starts_with("entry points of kernel.cu:1:"));
  CHECK(entry.log.find("use of undeclared identifier 'other'") != std::string::npos);

  const CompiledObject unclosed = compile("extern \"C\" __global__ void k(int* p) {\n  if (*p) {\n", {"k"});
  CHECK(unclosed.object == "");
  CHECK(unclosed.log.find("kernel.cu:2:11: note: to match this '{'") != std::string::npos);
}

TEST_CASE("instructions of a GPU in a text are a located error") {
  const std::string text =
      "__device__ inline unsigned load(const unsigned* p) {\n"
      "  unsigned v;\n"
      "  asm volatile(\"ld.global.u32 %0, [%1];\" : \"=r\"(v) : \"r\"(p));\n"
      "  return v;\n"
      "}\n"
      "extern \"C\" __global__ void k(unsigned* p) {\n"
      "  asm volatile(\"\" ::: \"memory\");\n"  // no instruction: what orders accesses for the compiler alone
      "  *p = load(p + 1);\n"
      "}\n";
  for (const bool check : {false, true}) {
    const CompiledObject compiled = compile(text, {"k"}, check);
    CHECK(compiled.object == "");
    CHECK(
        compiled.log ==
        "kernel.cu:3: error: inline assembly 'ld.global.u32 $0, [$1];' cannot run on the CPU target; give the function "
        "a body under #ifdef MOEGEN_TARGET_CPU\n");
  }
}

TEST_CASE("the arch is what the text sees") {
  const std::string text =
      "extern \"C\" __global__ void k(int* p) {\n"
      "  p[0] = __CUDA_ARCH__;\n"
      "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n"
      "  p[1] = 90;\n"
      "#endif\n"
      "#ifdef MOEGEN_TARGET_CPU\n"
      "  p[2] = 1;\n"
      "#endif\n"
      "}\n";
  const auto run_for = [&](std::string_view arch) {
    std::string why;
    const auto program = loader().load(compile(text, {"k"}, false, arch).object, {"k"}, why);
    REQUIRE_MESSAGE(program, why);
    std::vector<int> seen(3, -1);
    int* pointer = seen.data();
    void* parameters[] = {&pointer};
    OneThread().run(program->find("k")->function, parameters);
    return seen;
  };
  CHECK(run_for("sm_90a") == std::vector{900, 90, 1});
  CHECK(run_for("sm_80") == std::vector{800, -1, 1});
  CHECK(run_for("sm_120a") == std::vector{1200, -1, 1});
}

TEST_CASE("launch bounds of the text are read, entry by entry") {
  const auto program = build(
      "template <int n> struct P { enum : unsigned { threads = 32 * n }; };\n"
      "extern \"C\" __global__ void __launch_bounds__(256, 1) number(int* p) { __shared__ int s; s = 1; *p = s; }\n"
      "extern \"C\" __global__ __launch_bounds__(P<5>::threads) void enumerator(int* p) { *p = 2; }\n"
      "__launch_bounds__(96) __global__ void helper(int* p) { *p = 3; }\n"
      "extern \"C\" __global__ void __launch_bounds__(64ul) declared(int* p);\n"
      "extern \"C\" __global__ void declared(int* p) { helper(p); }\n"
      "extern \"C\" __global__ void nothing(int* p) {}\n",
      {"nothing", "number", "declared", "enumerator"});
  CHECK(program->find("number")->max_threads == 256);
  CHECK(program->find("number")->static_shared_bytes == 4);
  CHECK(program->find("enumerator")->max_threads == 160);
  CHECK(program->find("declared")->max_threads == 64);
  CHECK(program->find("nothing")->max_threads == 0);
  const CompiledObject wrong = compile("extern \"C\" __global__ void __launch_bounds__(n) k() {}\n", {"k"});
  CHECK(wrong.object == "");
  CHECK(wrong.log.starts_with("kernel.cu:1:"));
  CHECK(wrong.log.find("use of undeclared identifier 'n'") != std::string::npos);
}

TEST_CASE("parameters of every kind arrive") {
  struct Small {
    int a;
    short b;
  };
  struct Large {
    unsigned char bytes[100];
  };
  const auto program = build(
      "struct Small { int a; short b; };\n"
      "struct Large { unsigned char bytes[100]; };\n"
      "struct Aligned { __align__(16) float x[4]; };\n"
      "extern \"C\" __global__ void __launch_bounds__(256, 1) kinds(long* out, const __grid_constant__ Large large,\n"
      "    Small small, float f, double d, signed char c, bool flag, unsigned long u, const Aligned v, const int* in) "
      "{\n"
      "  long sum = 0;\n"
      "  for (int i = 0; i < 100; ++i) sum += large.bytes[i] * (i + 1);\n"
      "  out[0] = sum;\n"
      "  out[1] = small.a; out[2] = small.b; out[3] = (long)(f * 8); out[4] = (long)(d * 8);\n"
      "  out[5] = c; out[6] = flag; out[7] = (long)u; out[8] = (long)v.x[3]; out[9] = *in;\n"
      "}\n"
      "extern \"C\" __global__ void nothing() {}\n",
      {"kinds", "nothing"});
  std::vector<long> out(10, 0);
  long* out_pointer = out.data();
  Large large;
  long sum = 0;
  for (int i = 0; i < 100; ++i) {
    large.bytes[i] = static_cast<unsigned char>(200 - i);
    sum += large.bytes[i] * (i + 1);
  }
  Small small{-70000, -3};
  float f = 2.25f;
  double d = -4.125;
  signed char c = -5;
  bool flag = true;
  unsigned long u = 1ul << 62;
  alignas(16) float v[4] = {1, 2, 3, 44};
  const int in = 77;
  const int* in_pointer = &in;
  void* parameters[] = {&out_pointer, &large, &small, &f, &d, &c, &flag, &u, v, &in_pointer};
  OneThread().run(program->find("kinds")->function, parameters);
  CHECK(out == std::vector<long>{sum, -70000, -3, 18, -33, -5, 1, 1l << 62, 44, 77});
  CHECK(sum > 100000);
  OneThread().run(program->find("nothing")->function, nullptr);
  CHECK(program->find("absent") == nullptr);
}

TEST_CASE("shared variables get places of their own, the dynamic part comes last and aligned") {
  const std::string text =
      "template <class T> __device__ T* cell(int i) { __shared__ T cells[3]; return &cells[i]; }\n"
      "__shared__ __align__(128) unsigned char wide[8];\n"
      "__device__ unsigned char* dynamic_a() { extern __shared__ __align__(256) unsigned char a[]; return a; }\n"
      "__device__ double* dynamic_b() { extern __shared__ double b[]; return b; }\n"
      "extern \"C\" __global__ void places(void** out, int i) {\n"
      "  __shared__ unsigned char byte;\n"
      "  out[0] = cell<char>(0); out[1] = cell<double>(i); out[2] = wide; out[3] = &byte;\n"
      "  out[4] = dynamic_a(); out[5] = dynamic_b();\n"
      "}\n";
  const auto program = build(text, {"places"});
  const HostProgram::Entry& entry = *program->find("places");
  std::vector<char*> places(6, nullptr);
  void* out = places.data();
  int i = 2;
  void* parameters[] = {&out, &i};
  OneThread thread;
  thread.run(entry.function, parameters);
  const auto offset = [&](std::size_t index) { return static_cast<std::uint32_t>(places[index] - thread.shared()); };
  // [begin, end) of each static variable, from what the kernel said
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges = {{offset(0), offset(0) + 3},
                                                                 {offset(1) - 16, offset(1) + 8},
                                                                 {offset(2), offset(2) + 8},
                                                                 {offset(3), offset(3) + 1}};
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t r = 1; r < ranges.size(); ++r) CHECK(ranges[r - 1].second <= ranges[r].first);
  CHECK(ranges.front().first == 0);
  CHECK(entry.static_shared_bytes == ranges.back().second);
  CHECK(offset(1) % 8 == 0);
  CHECK(offset(2) % 128 == 0);
  CHECK(entry.dynamic_shared_offset == 256);
  CHECK(offset(4) == 256);
  CHECK(offset(5) == 256);
  CHECK(compile(text, {"places"}).resources.at(0).shared_bytes == static_cast<int>(entry.static_shared_bytes));
}

TEST_CASE("a text without shared memory has none") {
  const auto program = build("extern \"C\" __global__ void k(int* p) { *p = 1; }\n", {"k"});
  CHECK(program->find("k")->static_shared_bytes == 0);
  CHECK(program->find("k")->dynamic_shared_offset == 0);
}

TEST_CASE("places are chains through the functions of the text") {
  const std::string text =
      "namespace moegen {\n"
      "template <int N> __device__ void meet() { cpu::block_sync(0); }\n"  // line 2
      "__device__ void step(int n) {\n"
      "  if (n) meet<1>();\n"  // line 4
      "  auto twice = [&] {\n"
      "    meet<2>();\n"  // line 6
      "  };\n"
      "  twice();\n"  // line 8
      "}\n"
      "}\n"
      "extern \"C\" __global__ void k(int n) {\n"
      "  moegen::step(n);\n"  // line 12
      "  moegen::step(n);\n"
      "}\n";
  for (const bool check : {false, true}) {
    const auto program = build(text, {"k"}, check);
    int n = 1;
    void* parameters[] = {&n};
    OneThread().run(program->find("k")->function, parameters);
    const std::vector<std::uint32_t>& sites = Recorded::instance().barrier_sites;
    REQUIRE(sites.size() == 4);
    CHECK(program->sites.describe(sites[0]) == "kernel.cu:2 in meet, from :4 in step, from :12 in k");
    CHECK(program->sites.describe(sites[1]) ==
          "kernel.cu:2 in meet, from :6 in a lambda, from :8 in step, from :12 in k");
    CHECK(program->sites.describe(sites[3]) ==
          "kernel.cu:2 in meet, from :6 in a lambda, from :8 in step, from :13 in k");
    CHECK(program->sites.describe(0) == "an unknown place");
    CHECK(program->sites.describe(1000) == "an unknown place");
  }
}

namespace {

/// What a checked text told of its accesses: line, kind, bytes, alignment.
using Told = std::vector<std::string>;

Told told(const HostProgram& program) {
  Told result;
  for (const auto& access : Recorded::instance().accesses) {
    const auto& frames = program.sites.frames(access.site);
    result.push_back(fmt::format("{}: {} {} / {}", frames.empty() ? 0 : frames.front().line, access.kind ? "w" : "r",
                                 access.bytes, access.alignment));
  }
  return result;
}

}  // namespace

TEST_CASE("exactly the accesses of the text to memory of others are told, as the text has them") {
  const auto program = build(
      "struct alignas(16) Vector { unsigned word[4]; };\n"
      "struct Pair { short a, b; };\n"
      "__constant__ int table[4] = {3, 1, 4, 1};\n"
      "extern \"C\" __global__ void k(const float* in, float* out, Vector* v, Pair* pairs, int n) {\n"
      "  __shared__ float tile[8];\n"
      "  tile[n] = in[n];\n"  // line 6: r4, w4
      "  float local[4] = {1, 2, 3, 4};\n"
      "  local[n & 3] += 1;\n"                               // the thread's own
      "  out[0] = local[n & 3] + table[1];\n"                // line 9: w4
      "  v[1] = v[0];\n"                                     // line 10: r16, w16
      "  v[2].word[3] = 7;\n"                                // line 11: w4
      "  const Pair p = pairs[n];\n"                         // line 12: r4 or r2 r2
      "  out[1] = p.a + p.b;\n"                              // line 13: w4
      "  for (int i = 0; i < 3; ++i) out[2 + i] = in[i];\n"  // line 14: (r4 w4) * 3
      "  out[5] = tile[n] + table[n];\n"                     // line 15: r4, r4 of a constant, w4
      "}\n",
      {"k"}, true);
  std::vector<float> in = {1, 2, 3, 4}, out(6, 0);
  struct alignas(16) Vector {
    unsigned word[4];
  } v[3] = {{{1, 2, 3, 4}}, {}, {}};
  short pairs[4] = {0, 0, 20, 5};
  const float* in_pointer = in.data();
  float* out_pointer = out.data();
  Vector* v_pointer = v;
  short* pairs_pointer = pairs;
  int n = 1;
  void* parameters[] = {&in_pointer, &out_pointer, &v_pointer, &pairs_pointer, &n};
  OneThread thread;
  thread.run(program->find("k")->function, parameters);
  CHECK(out == std::vector<float>{4, 25, 1, 2, 3, 3});
  CHECK(v[1].word[3] == 4);
  CHECK(v[2].word[3] == 7);
  const Told expected = {"6: r 4 / 4",  "6: w 4 / 4",  "9: w 4 / 4",  "10: r 16 / 16", "10: w 16 / 16", "11: w 4 / 4",
                         "12: r 4 / 2", "13: w 4 / 4", "14: r 4 / 4", "14: w 4 / 4",   "14: r 4 / 4",   "14: w 4 / 4",
                         "14: r 4 / 4", "14: w 4 / 4", "15: r 4 / 4", "15: r 4 / 4",   "15: w 4 / 4"};
  CHECK_MESSAGE(told(*program) == expected, fmt::format("{}", fmt::join(told(*program), "\n")));
  const auto& accesses = Recorded::instance().accesses;
  REQUIRE(accesses.size() == expected.size());
  CHECK(accesses[0].address == reinterpret_cast<std::uintptr_t>(&in[1]));
  CHECK(accesses[1].address == reinterpret_cast<std::uintptr_t>(thread.shared() + 4));
  CHECK(accesses[3].address == reinterpret_cast<std::uintptr_t>(&v[0]));
  const auto is_constant = [&](std::uintptr_t address) {
    return std::any_of(program->constants.begin(), program->constants.end(), [&](const auto& range) {
      return address - reinterpret_cast<std::uintptr_t>(range.first) < range.second;
    });
  };
  CHECK(is_constant(accesses[15].address));
  CHECK(!is_constant(accesses[14].address));
}

TEST_CASE("without checks nothing is told") {
  const auto program = build("extern \"C\" __global__ void k(int* p) { *p += 1; }\n", {"k"}, false);
  int value = 41;
  int* pointer = &value;
  void* parameters[] = {&pointer};
  OneThread().run(program->find("k")->function, parameters);
  CHECK(value == 42);
  CHECK(Recorded::instance().accesses.empty());
}

TEST_CASE("a misaligned vector access is no fault of the host") {
  const std::string text =
      "struct alignas(64) Wide { float x[16]; };\n"
      "extern \"C\" __global__ void k(Wide* out, const Wide* in) { *out = *in; }\n";
  for (const bool check : {false, true}) {
    const auto program = build(text, {"k"}, check);
    alignas(64) char from[192] = {}, to[192] = {};
    for (std::size_t i = 0; i < sizeof from; ++i) from[i] = static_cast<char>(i);
    void *out = to + 4, *in = from + 12;
    void* parameters[] = {&out, &in};
    OneThread().run(program->find("k")->function, parameters);
    CHECK(std::memcmp(out, in, 64) == 0);
    if (check) CHECK(Recorded::instance().accesses.at(0).alignment == 16);
  }
}

TEST_CASE("arithmetic is the GPU's: fused, saturating, wrapping") {
  const auto program = build(
      "extern \"C\" __global__ void k(float* out, int* whole, float a, float b, float c, int most) {\n"
      "  out[0] = a * b + c;\n"
      "  const float product = b * b;\n"
      "  out[1] = product + c;\n"
      "  whole[0] = (int)(b * 1e30f);\n"
      "  whole[1] = (int)(0.0f / (c - c));\n"
      "  whole[2] = most + 1 < most;\n"
      "}\n",
      {"k"});
  float out[2] = {};
  int whole[3] = {};
  float *out_pointer = out, a = 1.0f + 0x1p-12f, b = 1.0f + 0x1p-12f, c = -1.0f;
  int *whole_pointer = whole, most = 2147483647;
  void* parameters[] = {&out_pointer, &whole_pointer, &a, &b, &c, &most};
  OneThread().run(program->find("k")->function, parameters);
  CHECK(out[0] == 0x1p-11f + 0x1p-24f);  // the last bit is lost where the product is rounded on its own
  CHECK(out[1] == out[0]);               // across statements too
  CHECK(whole[0] == 2147483647);
  CHECK(whole[1] == 0);
  CHECK(whole[2] == 1);
}

TEST_CASE("an object that is damaged, of something else, or lacks something is refused in words") {
  const std::string text =
      "extern \"C\" __device__ void absent_function(int);\n"
      "extern \"C\" __global__ void k(int* p) { *p = 1; }\n"
      "extern \"C\" __global__ void calls(int* p) { absent_function(*p); }\n";
  const std::string good = compile(text, {"k"}).object;
  std::string why;
  REQUIRE(loader().load(good, {"k"}, why));
  const auto refused = [&](std::string_view object, const std::vector<std::string>& entries) {
    why.clear();
    CHECK(!loader().load(object, entries, why));
    return why;
  };
  CHECK(refused("", {"k"}) == "0 bytes that are no object of the CPU target, or a damaged one");
  CHECK(refused(std::string(5000, 'x'), {"k"}) == "5000 bytes that are no object of the CPU target, or a damaged one");
  for (std::size_t bytes = 0; bytes < good.size(); bytes += 61)
    CHECK(!loader().load(good.substr(0, bytes), {"k"}, why));
  for (std::size_t at = 0; at < good.size(); at += 61) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    CHECK(!loader().load(changed, {"k"}, why));
  }
  CHECK(refused(good, {"k", "other"}) == "kernel.cu: the object has no entry point 'other'");
  const std::string unresolved = refused(compile(text, {"calls"}).object, {"calls"});
  CHECK(unresolved.starts_with("kernel.cu: the object cannot be linked: "));
  CHECK(unresolved.find("absent_function") != std::string::npos);
  REQUIRE(loader().load(good, {"k"}, why));  // a refusal leaves nothing behind
}

TEST_CASE("two threads compile and load at once, to the same bytes") {
  const std::string text = "extern \"C\" __global__ void k(int* p) { for (int i = 0; i < 100; ++i) p[i] = i * i; }\n";
  const std::string alone = compile(text, {"k"}).object;
  std::vector<std::thread> threads;
  std::vector<int> same(4, 0);
  for (std::size_t i = 0; i < same.size(); ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        const CompiledObject compiled = compile(text, {"k"});
        std::string why;
        same[i] += compiled.object == alone && loader().load(compiled.object, {"k"}, why);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::vector(4, 3));
}

TEST_CASE("the version names the compiler and the machine") {
  CHECK(compiler().version().starts_with("clang-19.1."));
  CHECK(std::count(compiler().version().begin(), compiler().version().end(), ' ') == 3);
}
