// SPDX-License-Identifier: Apache-2.0
#include "support/table.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace moegen::cli {
namespace {

void append_cell(std::string& line, const std::string& cell, std::size_t width, Table::Align align) {
  if (!line.empty()) line += "  ";
  line += align == Table::Align::right ? fmt::format("{:>{}}", cell, width) : fmt::format("{:<{}}", cell, width);
}

void append_line(std::string& text, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + '\n';
}

}  // namespace

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text, line;
  for (std::size_t i = 0; i < columns_.size(); ++i) append_cell(line, columns_[i].title, widths[i], columns_[i].align);
  append_line(text, std::move(line));
  for (const auto& row : rows_) {
    line.clear();
    for (std::size_t i = 0; i < row.size(); ++i) append_cell(line, row[i], widths[i], columns_[i].align);
    append_line(text, std::move(line));
  }
  return text;
}

}  // namespace moegen::cli
