// SPDX-License-Identifier: Apache-2.0
#include <moegen/config.hpp>

#include <xxhash.h>

#include <moegen/error.hpp>

#include "config_fields.hpp"
#include "config_reader.hpp"
#include "config_rules.hpp"
#include "config_writer.hpp"
#include "json_reader.hpp"
#include "text_file.hpp"

namespace moegen {

struct Config::State {
  ConfigFields fields;
  std::string origin;
  GivenFields given;
  std::string json;
  std::uint64_t digest = 0;
};

namespace {

std::string to_text(const ConfigFields& fields, std::string_view origin) {
  ConfigWriter writer(origin);
  visit_config(writer, fields);
  return writer.tree().dump(2) + "\n";
}

}  // namespace

Config Config::from_file(const std::filesystem::path& path) { return from_json(read_text(path), text_origin(path)); }

Config Config::from_json(std::string_view text, std::string_view origin) {
  const nlohmann::json tree = parse_json(text, origin);
  auto state = std::make_shared<State>();
  ConfigReader reader(tree, origin);
  visit_config(reader, state->fields);
  reader.finish();
  state->given = reader.given();
  state->origin = origin;
  resolve_defaults(state->fields, state->given);
  check_rules(state->fields, origin);
  state->json = to_text(state->fields, origin);
  state->digest = XXH3_64bits(state->json.data(), state->json.size());
  return Config(std::move(state));
}

// Through the text, so that the two ways in can never come to differ.
Config Config::from_fields(const ConfigFields& fields, std::string_view origin) {
  return from_json(to_text(fields, origin), origin);
}

const ConfigFields& Config::fields() const noexcept { return state_->fields; }
const std::string& Config::origin() const noexcept { return state_->origin; }
bool Config::given(std::string_view pointer) const { return state_->given.contains(pointer); }
std::string Config::to_json() const { return state_->json; }
std::uint64_t Config::digest() const noexcept { return state_->digest; }

}  // namespace moegen
