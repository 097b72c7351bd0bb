// SPDX-License-Identifier: Apache-2.0
// moegen import: a model's Hugging Face config.json -> a config.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <moegen/error.hpp>
#include <moegen/importer.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/json_output.hpp"
#include "support/output_file.hpp"
#include "support/standard_output.hpp"
#include "support/table.hpp"
#include "text_file.hpp"

namespace moegen::cli {
namespace {

struct Request {
  std::string file, out, name, weights;
  std::optional<std::int64_t> layer, expert_parallel, rank, tensor_parallel;
  bool explain = false, json = false;
};

int as_int(const std::optional<std::int64_t>& value, int otherwise) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return value ? static_cast<int>(std::min(*value, kMost)) : otherwise;
}

ImportResult import_model(const Request& request) {
  ImportOptions options;
  options.name = request.name;
  options.layer = request.layer;
  if (!request.weights.empty()) options.weights = find_dtype(request.weights);
  options.expert_parallel = as_int(request.expert_parallel, 1);
  options.expert_parallel_rank = as_int(request.rank, 0);
  options.tensor_parallel = as_int(request.tensor_parallel, 1);
  return import_hf(read_text(request.file), text_origin(request.file), options);
}

/// "0-2, 5".
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = last + 1) {
    last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[first]);
    if (last > first) text += fmt::format("-{}", numbers[last]);
  }
  return text;
}

/// The user of one layer's config should know that the model has others.
void note_layers(const ImportResult& result) {
  if (result.layers.size() < 2) return;
  for (const LayerKind& kind : result.layers) {
    note(fmt::format("layers {}: {}{}", ranges(kind.layers), kind.description, kind.chosen ? " (imported)" : ""));
  }
}

std::string explanation(const ImportResult& result) {
  Table table({{"field"}, {"value"}, {"source"}});
  for (const ImportedValue& value : result.values) table.add({value.pointer, value.value, value.source});
  return table.text();
}

Json values_json(const ImportResult& result) {
  Json list = Json::array();
  for (const ImportedValue& value : result.values) {
    list.push_back({{"pointer", value.pointer}, {"value", Json::parse(value.value)}, {"source", value.source}});
  }
  return list;
}

Json layers_json(const ImportResult& result) {
  Json list = Json::array();
  for (const LayerKind& kind : result.layers) {
    list.push_back(
        {{"description", kind.description}, {"layers", kind.layers}, {"moe", kind.moe}, {"imported", kind.chosen}});
  }
  return list;
}

Json as_json(const ImportResult& result) {
  constexpr bool kThrow = true, kComments = true;
  return {{"model_type", result.model_type},
          {"config", Json::parse(result.config, nullptr, kThrow, kComments)},
          {"values", values_json(result)},
          {"layers", layers_json(result)},
          {"notes", result.notes}};
}

void declare(Options& options, Request& request) {
  options.positional("FILE", request.file, "a model's config.json; '-' reads standard input");
  options.output("-o,--out", request.out, "OUT", "write the config there (default: standard output)");
  options.text("--name", request.name, "NAME", "name of the config (default: from FILE)");
  options.integer("--layer", request.layer, 0, "N", "the layer to import (default: the most frequent MoE layer)");
  options.choice("--weights", request.weights, {"bfloat16", "float8_e4m3fn"}, "the twin of a 4-bit model");
  options.integer("--expert-parallel", request.expert_parallel, 1, "N", "share the experts between N ranks");
  options.integer("--rank", request.rank, 0, "N", "the rank to import of those (default: 0)");
  options.integer("--tensor-parallel", request.tensor_parallel, 1, "N", "share the intermediate width");
  options.flag("--explain", request.explain, "print where each value comes from instead of the config");
  options.json(request.json);
}

}  // namespace

int run_import(const Arguments& arguments) {
  Request request;
  Options options("import", "Make a config from a model's Hugging Face config.json. Nothing is guessed.");
  declare(options, request);
  if (!options.parse(arguments)) return kOk;

  const ImportResult result = import_model(request);
  if (!request.out.empty()) write_file(request.out, result.config);
  note_layers(result);
  for (const std::string& sentence : result.notes) note(sentence);
  if (request.json) {
    print_json(as_json(result));
  } else if (request.explain) {
    print(explanation(result));
  } else if (request.out.empty()) {
    print(result.config);
  }
  return kOk;
}

}  // namespace moegen::cli
