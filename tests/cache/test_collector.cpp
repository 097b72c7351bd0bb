// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "cache/collector.hpp"

using namespace moegen::cache;

namespace {

constexpr std::int64_t kNow = 1'000'000;

FolderFile file(FileKind kind, std::uint64_t bytes, std::int64_t age_s) { return {"x", kind, bytes, kNow - age_s}; }

}  // namespace

TEST_CASE("a file is what its name says") {
  CHECK(kind_of("tmp-0123") == FileKind::temporary);
  CHECK(kind_of("tmp-0123.moegen") == FileKind::temporary);
  CHECK(kind_of("abc-nvrtc-13.0.moegen") == FileKind::entry);
  CHECK(kind_of("abc-nvrtc-13.0.bad") == FileKind::set_aside);
  CHECK(kind_of("abc-nvrtc-13.0.claim") == FileKind::claim);
  CHECK(kind_of("README") == FileKind::other);
}

TEST_CASE("the entries used longest ago go first, and no more than needed") {
  const std::vector<FolderFile> files{file(FileKind::entry, 10, 5), file(FileKind::entry, 10, 50),
                                      file(FileKind::entry, 10, 500), file(FileKind::entry, 10, 1)};
  CHECK(entry_bytes(files) == 40);
  CHECK(choose_victims(files, 40, kNow).empty());
  CHECK(choose_victims(files, 39, kNow) == std::vector<std::size_t>{2});
  CHECK(choose_victims(files, 30, kNow) == std::vector<std::size_t>{2});
  CHECK(choose_victims(files, 29, kNow) == std::vector<std::size_t>{2, 1});
  CHECK(choose_victims(files, 0, kNow) == std::vector<std::size_t>{2, 1, 0, 3});
}

TEST_CASE("abandoned temporaries and claims and everything set aside go at any size") {
  const std::vector<FolderFile> files{file(FileKind::temporary, 10, 3601), file(FileKind::temporary, 10, 3599),
                                      file(FileKind::claim, 0, 3601),      file(FileKind::claim, 0, 3599),
                                      file(FileKind::set_aside, 10, 0),    file(FileKind::other, 10, 99999),
                                      file(FileKind::entry, 10, 99999)};
  CHECK(choose_victims(files, 1000, kNow) == std::vector<std::size_t>{0, 2, 4});
}
