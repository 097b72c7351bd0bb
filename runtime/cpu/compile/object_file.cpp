// SPDX-License-Identifier: Apache-2.0
#include "cpu/compile/object_file.hpp"

#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

namespace moegen::cpu {

namespace {

constexpr std::string_view kMagic = "moegen-1";

/// The last bytes of an object.
struct Footer {
  std::uint64_t table_bytes = 0;
  std::uint64_t digest = 0;  ///< XXH3 of everything before the footer
  char magic[8] = {};
};

std::uint64_t digest_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string print(const ObjectTable& table) {
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n", table.file_name, table.static_shared_bytes,
                                 table.dynamic_shared_offset, table.num_constants, table.entries.size());
  for (std::size_t i = 0; i < table.entries.size(); ++i)
    text += fmt::format("{}\n{}\n", table.entries[i], table.max_threads[i]);
  return text + table.sites;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::uint32_t take_number(std::string_view& text) {
  const std::string_view line = take_line(text);
  std::uint32_t value = 0;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

ObjectTable parse(std::string_view text) {
  ObjectTable table;
  table.file_name = take_line(text);
  table.static_shared_bytes = take_number(text);
  table.dynamic_shared_offset = take_number(text);
  table.num_constants = take_number(text);
  for (std::uint32_t left = take_number(text); left > 0 && !text.empty(); --left) {
    table.entries.emplace_back(take_line(text));
    table.max_threads.push_back(take_number(text));
  }
  table.sites = text;
  return table;
}

}  // namespace

std::string seal(std::string elf, const ObjectTable& table) {
  const std::string text = print(table);
  elf += text;
  Footer footer{.table_bytes = text.size(), .digest = digest_of(elf), .magic = {}};
  std::memcpy(footer.magic, kMagic.data(), sizeof footer.magic);
  elf.append(reinterpret_cast<const char*>(&footer), sizeof footer);
  return elf;
}

std::optional<ObjectTable> unseal(std::string_view object) {
  Footer footer;
  if (object.size() < sizeof footer) return std::nullopt;
  std::memcpy(&footer, object.data() + object.size() - sizeof footer, sizeof footer);
  object.remove_suffix(sizeof footer);
  if (std::string_view(footer.magic, sizeof footer.magic) != kMagic) return std::nullopt;
  if (footer.table_bytes > object.size() || footer.digest != digest_of(object)) return std::nullopt;
  return parse(object.substr(object.size() - footer.table_bytes));
}

}  // namespace moegen::cpu
