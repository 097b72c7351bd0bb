// SPDX-License-Identifier: Apache-2.0
// moegen emit: the CUDA source of kernels, to standard output or into files.
#include <cctype>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <moegen/engine.hpp>
#include <moegen/error.hpp>
#include <moegen/source.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "support/json_output.hpp"
#include "support/output_file.hpp"
#include "support/selection.hpp"
#include "support/standard_output.hpp"

namespace moegen::cli {
namespace {

namespace fs = std::filesystem;

struct Request {
  Selection selection;
  std::string out;
  bool json = false;
};

struct Emitted {
  Job job;
  Source source;
  fs::path file;  ///< empty: not written to one
};

std::vector<Emitted> emit_all(const std::vector<Job>& jobs) {
  const auto directory = EngineOptions::from_environment().template_dir;
  std::optional<Templates> templates;
  if (directory) templates = Templates::from_directory(*directory);
  std::vector<Emitted> emitted;
  for (const Job& job : jobs) {
    const Plan plan = make_plan(job.config, job.kernel, *job.arch);
    emitted.push_back({job, emit_source(plan, templates ? *templates : Templates::embedded()), {}});
  }
  return emitted;
}

/// A config's name is free text; a file name is not.
std::string file_name(const Job& job) {
  std::string name = fmt::format("{}.{}.{}.cu", job.config->name, job.kernel, job.arch->name);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
  }
  return name;
}

bool means_directory(const std::string& out) {
  std::error_code ignored;
  return out.ends_with('/') || fs::is_directory(out, ignored);
}

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw Error(ErrorCode::cache, fmt::format("{}: cannot be created: {}", directory.string(), error.message()));
  }
}

void write_into(const std::string& out, std::vector<Emitted>& emitted) {
  const bool one_file = emitted.size() == 1 && !means_directory(out);
  if (!one_file) make_directory(out);
  for (Emitted& each : emitted) {
    each.file = one_file ? fs::path(out) : fs::path(out) / file_name(each.job);
    write_file(each.file, each.source.text);
  }
}

Json as_json(const std::vector<Emitted>& emitted) {
  Json list = Json::array();
  for (const Emitted& each : emitted) {
    Json source = {{"kernel", each.job.kernel}, {"arch", each.job.arch->name}, {"entries", each.source.entries}};
    if (each.file.empty()) {
      source["text"] = each.source.text;
    } else {
      source["file"] = each.file.string();
    }
    list.push_back(std::move(source));
  }
  return {{"sources", std::move(list)}};
}

/// Two sources in a row on standard output would not be one that a compiler takes.
void print_single(const std::vector<Emitted>& emitted) {
  if (emitted.size() == 1) return print(emitted.front().source.text);
  std::string names;
  for (const Emitted& each : emitted) {
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", each.job.kernel, each.job.arch->name);
  }
  throw Error(ErrorCode::config, fmt::format("emit: {} sources ({}) do not fit standard output; allowed one (--kernel, "
                                             "--arch), or -o DIR for all",
                                             emitted.size(), names));
}

}  // namespace

int run_emit(const Arguments& arguments) {
  Request request;
  Options options("emit", "The CUDA source of kernels: self-contained, the same bytes for the same config.");
  request.selection.declare(options);
  options.output("-o,--out", request.out, "PATH", "a file for one source, a folder for several (default: stdout)");
  options.json(request.json);
  if (!options.parse(arguments)) return kOk;

  std::vector<Emitted> emitted = emit_all(select_jobs(read_configs(request.selection.configs), request.selection));
  if (!request.out.empty()) write_into(request.out, emitted);
  if (request.json) {
    print_json(as_json(emitted));
  } else if (request.out.empty()) {
    print_single(emitted);
  }
  return kOk;
}

}  // namespace moegen::cli
