// SPDX-License-Identifier: Apache-2.0
// Which file becomes NVRTC and why others do not; and what a compiler's odd answers turn into.
#include <doctest/doctest.h>

#include <string>

#include <moegen/error.hpp>

#include "cuda/nvrtc.hpp"
#include "fakes/fake_nvrtc.hpp"

using namespace moegen;
using cuda::CompiledCubin;
using cuda::Nvrtc;

namespace {

constexpr const char* kHow =
    "; install a CUDA toolkit 12.9 or later, or the wheel nvidia-cuda-nvrtc and configure moegen with "
    "-DMOEGEN_NVRTC_DIR=<folder of libnvrtc.so>";
constexpr const char* kSource =
    "extern \"C\" __global__ void moegen_one(int n) {}\n"
    "extern \"C\" __global__ void moegen_two(int n) {}\n";

std::string why_not(const std::vector<std::string>& candidates) {
  std::string why;
  CHECK(Nvrtc::load_from(candidates, why) == nullptr);
  return why;
}

CompiledCubin compile(const std::vector<std::string>& entries) {
  return Nvrtc::load()->compile(kSource, "kernel.cu", find_arch("sm_90a"), entries);
}

std::string refusal(const std::vector<std::string>& entries) {
  try {
    compile(entries);
  } catch (const CompileError& error) {
    CHECK(error.source() == kSource);
    return error.what();
  }
  return "nothing was thrown";
}

struct Fresh {
  Fresh() { fake::reset_nvrtc(); }
};

}  // namespace

TEST_CASE("a machine without NVRTC is told how to get it") {
  CHECK(why_not({"libnvrtc-none.so.13", "/not/there/libnvrtc.so"}) ==
        std::string("no NVRTC 12.9 or later: no libnvrtc was found") + kHow);
}

TEST_CASE("a file that will not do is named with the reason") {
  CHECK(why_not({FAKE_OLD_NVRTC, FAKE_OLD_NVRTC}) ==
        std::string("no NVRTC 12.9 or later: '" FAKE_OLD_NVRTC "' is NVRTC 12.8, too old") + kHow);
  CHECK(why_not({FAKE_CUDA}) ==
        std::string("no NVRTC 12.9 or later: '" FAKE_CUDA "' is not an NVRTC that moegen knows") + kHow);
}

TEST_CASE("the first candidate that will do is taken") {
  std::string why;
  const auto nvrtc = Nvrtc::load_from({"/not/there/libnvrtc.so", FAKE_OLD_NVRTC, "libnvrtc.so.13"}, why);
  REQUIRE(nvrtc);
  CHECK(nvrtc->version() == "nvrtc-98.7");
  CHECK(nvrtc->version_number() == 98070);
  CHECK(nvrtc->supported_archs().front() == "sm_80");
}

TEST_CASE("the candidates begin with the loader's own search and end beside this program") {
  const auto candidates = Nvrtc::candidates();
  REQUIRE(candidates.size() >= 9);
  CHECK(candidates[0] == "libnvrtc.so.13");
  CHECK(candidates[3] == "/usr/local/cuda/lib64/libnvrtc.so.13");
  CHECK(candidates.back().ends_with("/lib/moegen/nvrtc/libnvrtc.so"));
}

TEST_CASE("a version is on the machine if its builtins lie beside a candidate") {
  CHECK_FALSE(Nvrtc::on_this_machine("nvrtc-98.7"));
  CHECK_FALSE(Nvrtc::on_this_machine("clang-19"));
  CHECK_FALSE(Nvrtc::on_this_machine(""));
}

TEST_CASE_FIXTURE(Fresh, "the flags are those of the cache key and nothing else") {
  CHECK(compile({"moegen_one"}).resources.size() == 1);
  CHECK(fake::nvrtc().last_options == "--gpu-architecture=sm_90a --std=c++20 --no-cache --ptxas-options=-v");
  CHECK(fake::nvrtc().last_name == "kernel.cu");
}

TEST_CASE_FIXTURE(Fresh, "resources come in the order of the entry points asked for") {
  const CompiledCubin compiled = compile({"moegen_two", "moegen_one"});
  REQUIRE(compiled.resources.size() == 2);
  CHECK(compiled.resources[0].entry == "moegen_two");
  CHECK(compiled.resources[1].registers == 40);
  CHECK(compiled.resources[1].shared_bytes == 512);
}

TEST_CASE_FIXTURE(Fresh, "an empty cubin is refused") {
  fake::nvrtc().empty_cubin = true;
  CHECK(refusal({"moegen_one"}) == "kernel.cu for sm_90a: the compiler gave 0 bytes that are no ELF file");
}

TEST_CASE_FIXTURE(Fresh, "a cubin without an entry point is refused") {
  fake::nvrtc().missing_entry = "moegen_two";
  CHECK(refusal({"moegen_one", "moegen_two"}) == "kernel.cu for sm_90a: the cubin has no entry point 'moegen_two'");
}

TEST_CASE_FIXTURE(Fresh, "an entry point without a report is refused: spills could not be seen") {
  fake::nvrtc().unreported_entry = "moegen_two";
  CHECK(refusal({"moegen_one", "moegen_two"}) ==
        "kernel.cu for sm_90a: the compiler reported no resources for entry point 'moegen_two'");
}

TEST_CASE_FIXTURE(Fresh, "the first error of a long log is the message") {
  fake::nvrtc().failure = "k.cu(1): warning: w\nk.cu(7): error: the one\nk.cu(9): error: another\n";
  CHECK(refusal({"moegen_one"}) ==
        "kernel.cu for sm_90a: nvrtc-98.7 says NVRTC_ERROR_COMPILATION: k.cu(7): error: the one");
}

TEST_CASE_FIXTURE(Fresh, "an arch that this NVRTC does not know is unsupported, with those it knows") {
  Arch future = find_arch("sm_90a");
  future.name = "sm_70";
  future.major = 7;
  future.minor = 0;
  try {
    Nvrtc::load()->compile(kSource, "kernel.cu", future, {"moegen_one"});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unsupported);
    const std::string what = error.what();
    CHECK(what.starts_with("kernel.cu: nvrtc-98.7 at '"));
    CHECK(what.ends_with("' cannot compile for sm_70; it knows sm_80, sm_86, sm_89, sm_90, sm_100, sm_103, sm_120"));
  }
  CHECK(fake::num_compiles() == 0);
}
