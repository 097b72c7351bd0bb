// SPDX-License-Identifier: Apache-2.0
// Plain text tables: columns two blanks apart, numbers to the right, nothing a pipe would have to strip.
#pragma once

#include <string>
#include <vector>

namespace moegen::cli {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  /// Title line, then a line for each row; a newline after each, no blanks at their ends.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace moegen::cli
