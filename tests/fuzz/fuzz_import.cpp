// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model's config.json: either refused as the user's mistake, or imported as a config that reads.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <moegen/config.hpp>
#include <moegen/error.hpp>
#include <moegen/importer.hpp>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// The last byte chooses the options, so that slices and twins are fuzzed as well.
moegen::ImportOptions options_from(std::uint8_t byte) {
  moegen::ImportOptions options;
  if ((byte & 1) != 0) options.layer = byte >> 4;
  if ((byte & 2) != 0) options.weights = moegen::Dtype::float8_e4m3fn;
  if ((byte & 4) != 0) options.expert_parallel = 4;
  if ((byte & 8) != 0) options.tensor_parallel = 2;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const moegen::ImportOptions options = options_from(size == 0 ? 0 : data[size - 1]);
  try {
    const moegen::ImportResult result = moegen::import_hf(text, "fuzz.json", options);
    require(moegen::Config::from_json(result.config)->num_experts > 0);
    for (const moegen::ImportedValue& value : result.values) require(!value.source.empty());
  } catch (const moegen::Error& error) {
    require(error.code() == moegen::ErrorCode::config);
    require(std::string_view(error.what()).starts_with("fuzz.json:"));
  }
  return 0;
}
