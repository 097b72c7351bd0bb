// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "cache/ledger.hpp"
#include "cache/support.hpp"

using namespace moegen::cache;
using moegen::cache::testing::read_text;
using moegen::cache::testing::ScratchFolder;
using moegen::cache::testing::write_text;
using namespace std::chrono_literals;

namespace {

// An open cache folder with its version folder.
struct OpenFolder {
  OpenFolder() : fd(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY)) {
    std::filesystem::create_directory(scratch.path() / "v1");
  }
  std::filesystem::path ledger() const { return scratch.path() / "v1" / "ledger"; }
  ScratchFolder scratch;
  UniqueFd fd;
};

}  // namespace

TEST_CASE("counts of several ledgers add up") {
  OpenFolder folder;
  FileSystem fs;
  for (int i = 0; i < 3; ++i) {
    Ledger ledger(fs);
    ledger.count_hit();
    ledger.count_hit();
    ledger.count_compiled();
    ledger.count_corrupt();
    ledger.flush(folder.fd.get(), 0ms);
  }
  const Totals totals = Ledger(fs).read(folder.fd.get());
  CHECK(totals.hits == 6);
  CHECK(totals.compiled == 3);
  CHECK(totals.corrupt == 3);
}

TEST_CASE("what is not written yet is read too, and nothing is written without need") {
  OpenFolder folder;
  FileSystem fs;
  Ledger ledger(fs);
  ledger.flush(folder.fd.get(), 0ms);
  CHECK_FALSE(std::filesystem::exists(folder.ledger()));
  ledger.count_hit();
  CHECK(ledger.read(folder.fd.get()).hits == 1);
  CHECK_FALSE(std::filesystem::exists(folder.ledger()));
}

TEST_CASE("a ledger that another holds keeps its counts for later") {
  OpenFolder folder;
  FileSystem fs;
  Ledger ledger(fs);
  const UniqueFd other(::open(folder.ledger().c_str(), O_RDWR | O_CREAT, 0600));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  ledger.count_hit();
  ledger.flush(folder.fd.get(), 1ms);
  bool was_alone = true;
  ledger.update(folder.fd.get(), 1ms, [&](Totals& totals, bool alone) {
    was_alone = alone;
    totals.bytes += 500;
  });
  CHECK_FALSE(was_alone);
  CHECK(std::filesystem::file_size(folder.ledger()) == 0);
  REQUIRE(::flock(other.get(), LOCK_UN) == 0);
  ledger.flush(folder.fd.get(), 1ms);
  const Totals totals = Ledger(fs).read(folder.fd.get());
  CHECK(totals.hits == 1);
  CHECK(totals.bytes == 500);
}

TEST_CASE("a damaged ledger starts over") {
  OpenFolder folder;
  FileSystem fs;
  Ledger ledger(fs);
  ledger.update(folder.fd.get(), 0ms, [](Totals& totals, bool) { totals = {7, 8, 9, 10, 11}; });
  const std::string good = read_text(folder.ledger());
  CHECK(ledger.read(folder.fd.get()).last_scan_s == 8);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write_text(folder.ledger(), bad);
    REQUIRE(ledger.read(folder.fd.get()).last_scan_s == 0);
    write_text(folder.ledger(), good.substr(0, i));
    REQUIRE(ledger.read(folder.fd.get()).hits == 0);
  }
  ledger.update(folder.fd.get(), 0ms, [](Totals& totals, bool alone) {
    CHECK(alone);
    CHECK(totals.bytes == 0);
    totals.hits = 1;
  });
  CHECK(ledger.read(folder.fd.get()).hits == 1);
}

TEST_CASE("a ledger that cannot be kept reads as never counted") {
  OpenFolder folder;
  FileSystem fs;
  Ledger ledger(fs);
  std::filesystem::create_directory(folder.ledger());
  for (int i = 0; i < 2; ++i) {
    ledger.update(folder.fd.get(), 0ms, [](Totals& totals, bool alone) {
      CHECK(alone);
      CHECK(totals.last_scan_s == 0);
      totals.last_scan_s = 5;
    });
  }
}
