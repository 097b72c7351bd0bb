// SPDX-License-Identifier: Apache-2.0
// Every primitive of templates/core as NVRTC sees it, for each arch that has it; and every file for every arch.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <moegen/arch.hpp>

#include "cuda/nvrtc.hpp"
#include "support/core_text.hpp"
#include "support/skip.hpp"
#include "wgmma.hpp"

using namespace moegen;

namespace {

const cuda::Nvrtc& nvrtc() {
  std::string why;
  static const auto loaded = cuda::Nvrtc::load(&why);
  if (!loaded) test::skip(why);
  return *loaded;
}

// A set of statements and the archs that have them all. In scope: `memory` (shared), `word` and `barrier` in it, `data`
// (global), `args.map`, `out`, `x`, `i`.
struct Group {
  int least;       ///< compute capability times 10
  bool exact_90a;  ///< on sm_90a alone
  std::string_view statements;
};

constexpr Group kGroups[] = {
    {80, false,
     "named_sync(1, 64); named_arrive(2, 64); fence_proxy_async(); *out = shared_address(memory) + nanoseconds();"},
    {80, false,
     "copy_async<4>(memory, data); copy_async<8>(memory, data); copy_async<16>(memory, data, i); copy_commit();"
     "copy_wait<0>(); copy_wait<3>();"},
    {80, false,
     "uint32_t r1[1], r2[2], r4[4]; load_matrix(r1, memory); load_matrix<true>(r1, memory); load_matrix(r2, memory);"
     "load_matrix<true>(r2, memory); load_matrix(r4, memory); load_matrix<true>(r4, memory);"
     "*out = r1[0] + r2[1] + r4[3];"},
    {80, false,
     "const uint32_t a[4] = {i, 1, 2, 3}, b[2] = {4, i}; float d[4] = {};"
     "mma(bfloat16{}, d, a, b, d); mma(float16{}, d, a, b, d); *out = float_bits(d[0] + d[3]);"},
    {89, false,
     "const uint32_t a[4] = {i, 1, 2, 3}, b[2] = {4, i}; float d[4] = {};"
     "mma(float8_e4m3fn{}, d, a, b, d); *out = float_bits(d[0] + d[3]);"},
    {80, false,
     "const FloatPair p = unpack_e4m3(i), q = unpack_e5m2(i), r = unpack_e2m1(i);"
     "*out = pack_e4m3(x, p.low) + pack_e5m2(x, q.high) + pack_e2m1(r.low, x) + pack_e8m0_up(x, p.high) +"
     "float_bits(to_float(float8_e4m3fn{data[0]}) + to_float(float8_e5m2{data[1]}) + "
     "to_float(float8_e8m0fnu{data[2]}));"},
    {90, false,
     "mbarrier_init(barrier, 1); mbarrier_fence_init(); mbarrier_expect(barrier, 16); mbarrier_arrive(barrier);"
     "mbarrier_arrive_expect(barrier, i); mbarrier_arrive_cluster(barrier, 1); mbarrier_wait(barrier, 0);"
     "*out = mbarrier_test(barrier, 1); mbarrier_invalidate(barrier);"},
    {90, false, "copy_async<16>(memory, data); copy_arrive(barrier);"},
    {90, false,
     "bulk_load(memory, data, 16, barrier); bulk_store(data, memory, 16); bulk_commit(); bulk_wait<0>();"
     "bulk_wait_read<1>();"},
    {90, false,
     "prefetch_tensor_map(args.map); tensor_load(memory, args.map, barrier, 0); tensor_load(memory, args.map, barrier, "
     "0, i);"
     "tensor_load(memory, args.map, barrier, 0, i, 2); tensor_load(memory, args.map, barrier, 0, i, 2, 3);"
     "tensor_load(memory, args.map, barrier, 0, i, 2, 3, 4); tensor_load_multicast(memory, args.map, barrier, 3, 0);"
     "tensor_load_multicast(memory, args.map, barrier, 3, 0, 1); tensor_load_multicast(memory, args.map, barrier, 3, "
     "0, 1, 2);"
     "tensor_load_multicast(memory, args.map, barrier, 3, 0, 1, 2, i);"
     "tensor_load_multicast(memory, args.map, barrier, 3, 0, 1, 2, 3, i); tensor_store(args.map, memory, 0);"
     "tensor_store(args.map, memory, 0, 1); tensor_store(args.map, memory, 0, 1, 2); tensor_store(args.map, memory, 0, "
     "1, 2, 3);"
     "tensor_store(args.map, memory, 0, 1, 2, 3, 4);"},
    {90, false,
     "const uint32_t r1[1] = {i}, r2[2] = {1, i}, r4[4] = {1, 2, 3, i}; store_matrix(memory, r1); "
     "store_matrix<true>(memory, r1);"
     "store_matrix(memory, r2); store_matrix<true>(memory, r2); store_matrix(memory, r4); store_matrix<true>(memory, "
     "r4);"},
    {90, true, "release_registers<24>(); acquire_registers<240>();"},
};

std::string kernel(std::string_view name, std::string_view statements) {
  return "extern \"C\" __global__ void __launch_bounds__(128, 1) " + std::string(name) +
         "(const __grid_constant__ Arguments args, unsigned char* data, uint32_t* out, float x, uint32_t i) {\n"
         "  using namespace moegen;\n  unsigned char* memory = dynamic_shared_tiles();\n"
         "  uint64_t* barrier = reinterpret_cast<uint64_t*>(memory + 4096);\n  " +
         std::string(statements) + "\n}\n";
}

constexpr std::string_view kArguments = "struct Arguments { moegen::TensorMap map; };\n";

bool has(const Arch& arch, const Group& group) {
  return group.exact_90a ? arch.name == "sm_90a" : arch.major * 10 + arch.minor >= group.least;
}

std::string wgmma_kernel(Dtype element, int n) {
  const std::string type(to_string(element)), shape = type + ", " + std::to_string(n);
  const bool wide = element != Dtype::float8_e4m3fn;
  std::string body =
      "const uint64_t a = matrix_descriptor(memory, Swizzle::span_128, 0, 1024), b = advance_descriptor(a, 32);\n"
      "const uint32_t r[4] = {i, 1, 2, 3}; float d[" +
      std::to_string(n / 2) +
      "];\n"
      "wgmma_fence(); Wgmma<" +
      shape + ">::multiply(d, a, b, false); Wgmma<" + shape + ">::multiply(d, r, b, true);\n";
  if (wide)
    body += "Wgmma<" + shape + ">::multiply<true, true>(d, a, b, true); Wgmma<" + shape +
            ">::multiply<false, true>(d, r, b, true);\n";
  body += "wgmma_commit(); wgmma_wait<1>(); wgmma_wait<0>();\n#pragma unroll\nfor (int j = 0; j < " +
          std::to_string(n / 2) + "; ++j) out[j * 128 + threadIdx.x] = float_bits(d[j]);";
  return kernel("use_" + type + "_" + std::to_string(n), body);
}

}  // namespace

TEST_CASE("every core file compiles for every arch") {
  for (const Arch& arch : all_archs())
    CHECK_NOTHROW(
        nvrtc().compile(test::core_text() + std::string(kArguments) + kernel("idle", ""), "core.cu", arch, {"idle"}));
}

TEST_CASE("every primitive compiles for every arch that has it") {
  for (const Arch& arch : all_archs()) {
    std::string text = test::core_text() + std::string(kArguments);
    std::vector<std::string> entries;
    for (const Group& group : kGroups) {
      if (!has(arch, group)) continue;
      entries.push_back("use_" + std::to_string(entries.size()));
      text += kernel(entries.back(), group.statements);
    }
    REQUIRE(entries.size() >= 5);
    CHECK_NOTHROW(nvrtc().compile(text, "core.cu", arch, entries));
  }
}

TEST_CASE("atomics and fences compile for every arch, order, scope and width") {
  std::string statements = "uint32_t* narrow = out; uint64_t* wide = reinterpret_cast<uint64_t*>(data);\n";
  for (const char* scope : {"block", "cluster", "device", "system"}) {
    const std::string of_scope = std::string("MemoryScope::") + scope + ">(";
    for (const char* order : {"relaxed", "acquire", "release", "acquire_release"}) {
      const std::string kind = std::string("<MemoryOrder::") + order + ", " + of_scope;
      for (const std::string word : {"narrow", "wide"}) {
        for (const char* name : {"add", "min", "max", "and", "or", "xor", "exchange"})
          statements += std::string("*wide += atomic_") + name + kind + word + ", i);\n";
        statements += "*wide += atomic_compare_exchange" + kind + word + ", i, 5);\n";
        if (std::string_view(order) == "relaxed" || std::string_view(order) == "release")
          statements += "atomic_store" + kind + word + ", 1);\n";
        if (std::string_view(order) == "relaxed" || std::string_view(order) == "acquire")
          statements += "*wide += atomic_load" + kind + word + ");\n";
      }
    }
    statements += "fence<" + of_scope + ");\n";
  }
  statements += "atomic_store(narrow, atomic_load(narrow)); fence(); if (i == 77) trap();\n";
  for (const Arch& arch : all_archs())
    CHECK_NOTHROW(nvrtc().compile(test::core_text() + std::string(kArguments) + kernel("use", statements), "core.cu",
                                  arch, {"use"}));
}

TEST_CASE("wgmma compiles for every element type and N, without a spill") {
  const Arch& arch = find_arch("sm_90a");
  for (Dtype element : {Dtype::bfloat16, Dtype::float16, Dtype::float8_e4m3fn}) {
    for (int n : {8, 24, 64, 128, 256}) {
      std::string text = test::core_text() + "namespace moegen {\n" + spell_wgmma({element, n}) + "}\n" +
                         std::string(kArguments) + wgmma_kernel(element, n);
      const std::string entry = "use_" + std::string(to_string(element)) + "_" + std::to_string(n);
      CAPTURE(entry);
      const cuda::CompiledCubin cubin = nvrtc().compile(text, "wgmma.cu", arch, {entry});
      CHECK(cubin.resources.at(0).spill_store_bytes == 0);
    }
  }
}

TEST_CASE("a text that uses what the arch lacks does not compile") {
  const std::string text =
      test::core_text() + std::string(kArguments) + kernel("use", "mbarrier_arrive_expect(barrier, 16);");
  CHECK_THROWS(nvrtc().compile(text, "core.cu", find_arch("sm_80"), {"use"}));
}
