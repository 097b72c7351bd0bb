// SPDX-License-Identifier: Apache-2.0
#include "verify/matmul_sums.hpp"

#include <map>

#include "verify/parallel.hpp"

namespace moegen::verify {
namespace {

using reference::MatmulSpec;
using reference::MatmulTensors;

/// One query while it is answered: rows of a decoded once, each column of an expert once.
class HostSums {
 public:
  HostSums(const MatmulSpec& spec, const MatmulTensors& tensors, const SumQuery& query)
      : spec_(spec),
        tensors_(tensors),
        query_(query),
        rows_(query.rows.size() * depth()),
        sums_(query.rows.size() * query.columns.size()) {
    for (std::size_t i = 0; i < query.rows.size(); ++i)
      if (query.rows[i].expert >= 0) of_expert_[query.rows[i].expert].push_back(i);
    parallel_for(static_cast<std::int64_t>(query.rows.size()), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) decode_row(static_cast<std::size_t>(i));
    });
  }

  std::vector<Bounded> compute() {
    parallel_for(static_cast<std::int64_t>(query_.columns.size()), 8, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> b(depth());
      std::vector<double> scales;
      for (const auto& [expert, rows] : of_expert_)
        for (std::int64_t i = begin; i < end; ++i) column(expert, rows, static_cast<std::size_t>(i), b, scales);
    });
    return std::move(sums_);
  }

 private:
  std::size_t depth() const { return static_cast<std::size_t>(spec_.depth); }

  void decode_row(std::size_t index) {
    const std::int64_t row = query_.rows[index].a_row;
    if (row >= 0) reference::decode(spec_.input(), tensors_.a, row * spec_.depth, spec_.depth, &rows_[index * depth()]);
  }

  void column(std::int32_t expert, const std::vector<std::size_t>& rows, std::size_t index, std::vector<float>& b,
              std::vector<double>& scales) {
    const std::int64_t column = query_.columns[index];
    reference::decode(spec_.input(), tensors_.b[static_cast<std::size_t>(expert)], column * spec_.depth, spec_.depth,
                      b.data());
    for (const std::size_t row : rows) {
      reference::scales_of(spec_, tensors_, query_.rows[row].a_row, expert, column, scales);
      sums_[row * query_.columns.size() + index] =
          reference::matmul_sum(spec_, &rows_[row * depth()], b.data(), scales);
    }
  }

  const MatmulSpec& spec_;
  const MatmulTensors& tensors_;
  const SumQuery& query_;
  std::vector<float> rows_;
  std::vector<Bounded> sums_;
  std::map<std::int32_t, std::vector<std::size_t>> of_expert_;
};

}  // namespace

SumSource host_sums(const MatmulSpec& spec, const MatmulTensors& tensors) {
  return [&spec, &tensors](const SumQuery& query) { return HostSums(spec, tensors, query).compute(); };
}

}  // namespace moegen::verify
