// SPDX-License-Identifier: Apache-2.0
// Fuzzes the config reader: any input gives a config whose canonical text reads back as itself, or an error of the
// code config that names its place. An input that starts with '#' is a list of edits of a small config, one a line: a
// byte that picks a field, then its value; so that the rules between fields are reached as well as the syntax.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <moegen/config.hpp>
#include <moegen/error.hpp>

#include "config_describer.hpp"

namespace {

using namespace moegen;
using nlohmann::json;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// The object that `place` names, made where it is missing or null. One that an earlier edit made something else stays
// that: the reader is to refuse it.
json& section_of(json& config, const json::json_pointer& place) {
  if (place.empty()) return config;
  json& outer = section_of(config, place.parent_pointer());
  if (!outer.is_object()) return outer;
  json& section = outer[place.back()];
  if (section.is_null()) section = json::object();
  return section;
}

void edit(json& config, std::string_view line) {
  if (line.empty()) return;
  const auto& field = all_fields()[static_cast<unsigned char>(line[0]) % all_fields().size()];
  json value = json::parse(line.substr(1), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) value = std::string(line.substr(1));
  const json::json_pointer place(field.pointer);
  json& section = section_of(config, place.parent_pointer());
  if (section.is_object()) section[place.back()] = std::move(value);
}

std::string edited(std::string_view edits) {
  json config = {{"moegen", 1},
                 {"name", "x"},
                 {"hidden", 256},
                 {"intermediate", 128},
                 {"num_experts", 8},
                 {"top_k", 2},
                 {"router", {{"scoring", "softmax"}}}};
  while (!edits.empty()) {
    const std::size_t end = std::min(edits.find('\n'), edits.size());
    edit(config, edits.substr(0, end));
    edits.remove_prefix(std::min(end + 1, edits.size()));
  }
  return config.dump(-1, ' ', false, json::error_handler_t::replace);
}

void check_round_trip(const Config& config) {
  const Config again = Config::from_json(config.to_json(), "again");
  require(again.to_json() == config.to_json(), "the canonical text reads back as another");
  require(again.digest() == config.digest(), "the digest of the canonical text differs");
  require(Config::from_fields(config.fields(), "fields").digest() == config.digest(), "from_fields differs");
}

void check(std::string_view text) {
  try {
    check_round_trip(Config::from_json(text, "fuzz"));
  } catch (const Error& error) {
    const std::string_view what = error.what();
    require(error.code() == ErrorCode::config, what);
    require(what.starts_with("fuzz:") && what.size() > 10, what);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('#'))
    check(edited(input.substr(1)));
  else
    check(input);
  return 0;
}
