// SPDX-License-Identifier: Apache-2.0
#include "logger.hpp"

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace moegen {
namespace {

std::string_view name_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::off: return "off";
    case LogLevel::warning: return "warning";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
  }
  return "debug";
}

void write_line(LogLevel level, const std::string& message) {
  fmt::print(stderr, "moegen: {}: {}\n", name_of(level), message);
}

}  // namespace

Logger::Logger(LogLevel level, Sink sink) : level_(level), sink_(sink ? std::move(sink) : Sink(write_line)) {}

void Logger::operator()(LogLevel level, const std::string& message) const {
  if (level != LogLevel::off && level <= level_) sink_(level, message);
}

}  // namespace moegen
