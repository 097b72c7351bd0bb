// SPDX-License-Identifier: Apache-2.0
// inspect on everything it takes. test_cubin_info.cpp has the hostile files. Needs NVRTC and LLVM, no GPU.
#include <doctest/doctest.h>

#include <string>

#include "cli/with_nvrtc.hpp"

using namespace moegen::test;
using nlohmann::json;

namespace {

const std::string kCubin = MOEGEN_SOURCE_DIR "/tests/cli/data/two_kernels.sm_90a.cubin";

struct InspectFolder : BuildFolder {
  InspectFolder() {
    if (run_moegen({"inspect", kCubin}).exit_code == 3) skip("moegen was built without LLVM");
  }
};

}  // namespace

TEST_CASE("a bare cubin") {
  const InspectFolder folder;
  const json cubin = folder.json({"inspect", kCubin})["cubins"][0];
  CHECK(cubin["source"] == kCubin);
  CHECK(cubin["arch"] == "sm_90a");
  CHECK(cubin["kernel"].is_null());
  CHECK(cubin["key"].is_null());
  REQUIRE(cubin["entries"].size() == 2);
  CHECK(cubin["entries"][1]["name"] == "kern");
  CHECK(cubin["entries"][1]["registers"] == 10);
  CHECK(cubin["entries"][1]["shared_bytes"] == 512);
  for (const char* unknown : {"spill_bytes", "dynamic_shared_bytes", "stages", "blocks_per_sm"})
    CHECK(cubin["entries"][1][unknown].is_null());
  CHECK(cubin["entries"][1]["max_threads"] == json{256, 1, 1});
  CHECK(cubin["entries"][1]["parameters"].size() == 4);

  const Outcome text = folder.run({"inspect", kCubin});
  CHECK(text.out.starts_with(kCubin + ": cubin sm_90a, 7904 bytes, Cuda compilation tools, release 13.0, V13.0.88\n"));
  CHECK(text.out.find("4 (32 B)") != std::string::npos);
}

TEST_CASE("a config: its kernels are built first, and what is inside agrees with what the compiler reported") {
  const InspectFolder folder;
  const json built = folder.json({"build", folder.config})["kernels"];
  const json cubins = folder.json({"inspect", folder.config})["cubins"];
  std::size_t next = 0;
  for (const json& kernel : built) {
    int registers = 0, shared = 0, bytes = 0;
    for (const json& key : kernel["keys"]) {
      REQUIRE(next < cubins.size());
      const json& cubin = cubins[next++];
      CHECK(cubin["kernel"] == kernel["kernel"]);
      CHECK(cubin["key"] == key);
      bytes += cubin["bytes"].get<int>();
      for (const auto& entry : cubin["entries"]) {
        CHECK(entry["name"].get<std::string>().starts_with("moegen_"));
        CHECK(entry["spill_bytes"] == 0);
        CHECK(entry["parameter_bytes"].get<int>() > 0);
        const bool matmul = kernel["kernel"].get<std::string>().starts_with("grouped_matmul.");
        CHECK(entry["blocks_per_sm"].get<int>() >= 1);
        CHECK(entry["stages"].is_number() == matmul);
        if (matmul) CHECK(entry["blocks_per_sm"] == 1);
        if (matmul) CHECK(entry["dynamic_shared_bytes"].get<int>() > 100000);
        registers = std::max(registers, entry["registers"].get<int>());
        shared = std::max(shared, entry["shared_bytes"].get<int>());
      }
    }
    CHECK(bytes == kernel["bytes"]);
    CHECK(registers == kernel["registers"]);
    CHECK(shared == kernel["shared_bytes"]);
  }
  CHECK(next == cubins.size());
  CHECK(next > built.size());  // a matmul is several cubins
}

TEST_CASE("packs, cache entries and standard input") {
  const InspectFolder folder;
  const std::string pack = (folder / "x.pack").string();
  const json built = folder.json({"build", folder.config, "--arch", "sm_80,sm_90a", "-o", pack});
  std::size_t parts = 0;
  for (const json& kernel : built["kernels"]) parts += kernel["keys"].size();
  CHECK(folder.json({"inspect", pack})["cubins"].size() == parts);
  const std::string entry = folder.json({"cache", "ls"})["entries"][0]["path"];
  const json from_entry = folder.json({"inspect", entry});
  CHECK(from_entry["cubins"].size() == 1);
  const Outcome piped = run({.args = {"inspect", "-", "--json"}, .input = read_text(entry)});
  CHECK(json::parse(piped.out)["cubins"][0]["key"] == from_entry["cubins"][0]["key"]);
  const Outcome pack_piped = run({.args = {"inspect", "-"}, .input = read_text(pack)});
  CHECK(pack_piped.exit_code == 2);
}

TEST_CASE("damaged and foreign files are errors that name the file") {
  const InspectFolder folder;
  folder.json({"build", folder.config});
  const std::string entry = read_text(folder.json({"cache", "ls"})["entries"][0]["path"].get<std::string>());
  write_text(folder / "cut.entry", entry.substr(0, entry.size() - 1));
  write_text(folder / "cut.cubin", read_text(kCubin).substr(0, 4000));
  write_text(folder / "fake.pack", "moegen pack\n nonsense");
  for (const std::string name : {"cut.entry", "cut.cubin", "fake.pack"}) {
    const Outcome outcome = folder.run({"inspect", (folder / name).string()});
    CAPTURE(name);
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find(name) != std::string::npos);
  }
  const Outcome endless = folder.run({"inspect", "/dev/zero"});
  CHECK(endless.exit_code == 2);
  CHECK(endless.err == "moegen: /dev/zero: is larger than 512 MiB, which no such file is\n");

  const Outcome foreign = folder.run({"inspect", "/bin/sh"});
  CHECK(foreign.exit_code == 2);
  CHECK(foreign.err.find("allowed a cubin") != std::string::npos);
}
