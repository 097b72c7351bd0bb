// SPDX-License-Identifier: Apache-2.0
// Cubins of known content (data/README.md), and the same files damaged in every way that is cheap to try.
#include <doctest/doctest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <moegen/error.hpp>

#include "cubin_info.hpp"
#include "occupancy.hpp"
#include "support/skip.hpp"

using namespace moegen;
using namespace moegen::cli;

namespace {

std::string data(const std::string& name) {
  if (!can_read_cubins()) test::skip("moegen was built without LLVM");
  std::ifstream file(MOEGEN_SOURCE_DIR "/tests/cli/data/" + name, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  REQUIRE(bytes.str().size() > 1000);
  return bytes.str();
}

/// True if `bytes` were read, false if they were refused with an Error; anything else ends the test.
bool reads(const std::string& bytes) {
  try {
    read_cubin(bytes, "x");
    return true;
  } catch (const Error& error) {
    CHECK(std::string(error.what()).starts_with("x: "));
    return false;
  }
}

}  // namespace

TEST_CASE("registers, memory, threads and parameters are what the compiler said") {
  const CubinInfo info = read_cubin(data("two_kernels.sm_90a.cubin"), "x");
  CHECK(info.arch == "sm_90a");
  CHECK(info.compiler == "Cuda compilation tools, release 13.0, V13.0.88");
  REQUIRE(info.kernels.size() == 2);

  const CubinKernel& clustered = info.kernels[0];
  CHECK(clustered.name == "kern2");
  CHECK(clustered.code_bytes == 2432);
  CHECK(clustered.registers == 32);
  CHECK(clustered.stack_bytes == 400);
  CHECK(clustered.shared_bytes == 0);
  CHECK(clustered.cluster == std::array{4u, 1u, 1u});
  CHECK(clustered.parameter_bytes == 8);
  CHECK_FALSE(clustered.max_threads.has_value());
  CHECK_FALSE(clustered.barriers.has_value());

  const CubinKernel& plain = info.kernels[1];
  CHECK(plain.name == "kern");
  CHECK(plain.registers == 10);
  CHECK(plain.stack_bytes == 0);
  CHECK(plain.shared_bytes == 512);  // the section says 1536: 1024 of them are the driver's
  CHECK(plain.barriers == 1);
  CHECK(plain.max_threads == std::array{256u, 1u, 1u});
  CHECK(plain.parameter_bytes == 32);
  REQUIRE(plain.parameters.size() == 4);
  CHECK(plain.parameters[2].offset == 16);
  CHECK(plain.parameters[2].bytes == 4);
  CHECK(plain.parameters[3].offset == 24);
  CHECK(plain.parameters[3].bytes == 8);
}

TEST_CASE("an arch without the driver's shared memory") {
  const CubinInfo info = read_cubin(data("one_kernel.sm_80.cubin"), "x");
  CHECK(info.arch == "sm_80");
  REQUIRE(info.kernels.size() == 1);
  CHECK(info.kernels[0].shared_bytes == 512);
  CHECK(info.kernels[0].registers == 10);
}

TEST_CASE("other files are refused") {
  data("one_kernel.sm_80.cubin");
  CHECK_THROWS_WITH_AS(read_cubin("", "x"),
                       "x: not a sound cubin: invalid buffer: the size (0) is smaller than an ELF header (64)", Error);
  std::string other = data("one_kernel.sm_80.cubin");
  other[18] = 62;  // e_machine of x86-64
  CHECK_THROWS_WITH_AS(read_cubin(other, "x"), "x: an ELF file for another machine (62); allowed a cubin (190)", Error);
}

TEST_CASE("a cut file never crashes") {
  const std::string whole = data("two_kernels.sm_90a.cubin");
  std::size_t refused = 0;
  for (std::size_t size = 0; size < whole.size(); size += 7) refused += reads(whole.substr(0, size)) ? 0 : 1;
  CHECK(refused > whole.size() / 7 / 2);  // the section table is at the end
}

TEST_CASE("any flipped byte of the headers and tables never crashes") {
  const std::string whole = data("two_kernels.sm_90a.cubin");
  std::size_t refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(~damaged[i]);
    refused += reads(damaged) ? 0 : 1;
  }
  CHECK(refused > 100);
  CHECK(refused < whole.size());
}

TEST_CASE("many random damages at once never crash") {
  const std::string whole = data("two_kernels.sm_90a.cubin");
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (auto n = 1 + random() % 40; n > 0; --n) damaged[random() % damaged.size()] = static_cast<char>(random());
    damaged.replace(0, 4, "\177ELF");
    refused += reads(damaged) ? 0 : 1;
  }
  CHECK(refused > 300);
  CHECK(refused < 3000);
}

TEST_CASE("blocks of a multiprocessor, by whichever of its limits is reached first") {
  const Arch& hopper = find_arch("sm_90a");
  CHECK(cli::blocks_per_sm(hopper, {.threads = 384, .registers = 168, .shared_bytes = 1000}) == 1);  // 12 of 12 warps
  CHECK(cli::blocks_per_sm(hopper, {.threads = 256, .registers = 128, .shared_bytes = 0}) == 2);
  CHECK(cli::blocks_per_sm(hopper, {.threads = 256, .registers = 129, .shared_bytes = 0}) == 1);  // 3 warps a partition
  CHECK(cli::blocks_per_sm(hopper, {.threads = 1024, .registers = 32, .shared_bytes = 0}) == 2);
  CHECK(cli::blocks_per_sm(hopper, {.threads = 1025, .registers = 255, .shared_bytes = 0}) == 0);
  CHECK(cli::blocks_per_sm(hopper, {.threads = 128, .registers = 32, .shared_bytes = hopper.max_shared_bytes}) == 1);
  CHECK(cli::blocks_per_sm(hopper, {.threads = 128, .registers = 32, .shared_bytes = hopper.max_shared_bytes + 1}) ==
        0);
  CHECK(cli::blocks_per_sm(hopper, {.threads = 128, .registers = 32, .shared_bytes = 113 * 1024}) == 2);
  CHECK(cli::blocks_per_sm(hopper, {.threads = 32, .registers = 16, .shared_bytes = 0}) == 32);
  CHECK(cli::blocks_per_sm(find_arch("sm_86"), {.threads = 32, .registers = 16, .shared_bytes = 0}) == 16);
  CHECK(cli::blocks_per_sm(find_arch("sm_89"), {.threads = 32, .registers = 16, .shared_bytes = 0}) == 24);
}
