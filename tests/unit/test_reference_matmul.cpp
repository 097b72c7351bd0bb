// SPDX-License-Identifier: Apache-2.0
// The references of grouped_matmul, activations and quantisers, against examples worked by hand and, for the bound of a
// sum, against tensor cores that cut as Hopper's do.
#include <cmath>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "reference/activation.hpp"
#include "reference/grouped_matmul.hpp"
#include "reference/number.hpp"
#include "reference/quantize.hpp"

namespace {

using namespace moegen;
using reference::MatmulSpec;
using reference::MatmulTensors;

ConfigFields fields_of(const std::string& rest) {
  return Config::from_json(
             R"({"moegen": 1, "name": "n", "hidden": 256, "intermediate": 16, "num_experts": 4, "top_k": 2,
                              "router": {"scoring": "softmax"}, )" +
             rest + "}")
      .fields();
}

const char* const kRowwise = R"("dtypes": {"weight": "float8_e4m3fn"}, "quantization": {"scheme": "rowwise"})";
const char* const kBlock128 = R"("dtypes": {"weight": "float8_e4m3fn"}, "quantization": {"scheme": "block128"})";

MatmulSpec up_of(const ConfigFields& fields) {
  MatmulSpec spec;
  spec.fields = fields;
  spec.depth = fields.expert_hidden;
  spec.columns = spec.output_columns = 2 * fields.intermediate;
  spec.output = fields.dtypes.activation;
  return spec;
}

MatmulSpec fused(MatmulSpec spec) {
  spec.fuse_activation = true;
  spec.output_columns = spec.fields.intermediate;
  return spec;
}

std::vector<char> filled(Dtype dtype, std::size_t count, double value) {
  std::vector<char> bytes(count * static_cast<std::size_t>(bits(dtype)) / 8);
  for (std::size_t i = 0; i < count; ++i) reference::store(dtype, bytes.data(), i, value);
  return bytes;
}

}  // namespace

TEST_CASE("a sum of ones, scaled by row and column") {
  const MatmulSpec spec = up_of(fields_of(kRowwise));
  const auto a = filled(Dtype::float8_e4m3fn, 3 * 256, 1), b = filled(Dtype::float8_e4m3fn, 32 * 256, 0.5);
  const std::vector<float> a_scales = {1, 2, 4};
  std::vector<float> b_scales(4 * 32, 0);
  b_scales[2 * 32 + 7] = 8;
  MatmulTensors tensors;
  tensors.a = a.data();
  tensors.b = {nullptr, nullptr, b.data(), nullptr};
  tensors.a_scales = a_scales.data();
  tensors.b_scales = b_scales.data();
  const auto row = reference::matmul_row(spec, tensors, 1, 2);
  REQUIRE(row.size() == 32);
  CHECK(row[7].value == 256 * 0.5 * 2 * 8);
  CHECK(row[6].value == 0);
  CHECK(row[7].error > 0);
  CHECK(reference::matmul_row(spec, tensors, 1, -1)[7].value == 0);
}

TEST_CASE("blocks of 128 have their own scales, in both layouts") {
  ConfigFields fields = fields_of(kBlock128);
  const auto a = filled(Dtype::float8_e4m3fn, 2 * 256, 1), b = filled(Dtype::float8_e4m3fn, 32 * 256, 1);
  const std::vector<float> rows = {1, 10, 100, 1000}, columns = {1, 100, 7, 7, 10, 1000, 7, 7};
  std::vector<float> b_scales(4 * 2, 0);
  b_scales[6] = 1;
  b_scales[7] = 2;
  MatmulTensors tensors;
  tensors.a = a.data();
  tensors.b = {nullptr, nullptr, nullptr, b.data()};
  tensors.b_scales = b_scales.data();
  tensors.a_scales = rows.data();
  CHECK(reference::matmul_row(up_of(fields), tensors, 1, 3)[31].value == 128 * (100 + 2 * 1000));
  fields.quantization.scale_layout = ScaleLayout::column;
  tensors.a_scales = columns.data();
  tensors.a_scales_stride = 4;
  CHECK(reference::matmul_row(up_of(fields), tensors, 1, 3)[31].value == 128 * (100 + 2 * 1000));
}

TEST_CASE("gathered rows, a dropped pair, bias and both gate layouts") {
  ConfigFields fields = fields_of(R"("experts": {"bias": true}, "activation": {"kind": "identity"})");
  MatmulSpec spec = fused(up_of(fields));
  spec.gather_a = true;
  const auto a = filled(Dtype::bfloat16, 256, 1);
  auto b = filled(Dtype::bfloat16, 32 * 256, 0);
  for (std::size_t k = 0; k < 256; ++k) {
    reference::store(Dtype::bfloat16, b.data(), 3 * 256 + k, 1);   // column 3
    reference::store(Dtype::bfloat16, b.data(), 19 * 256 + k, 2);  // column 19
  }
  const auto bias = filled(Dtype::bfloat16, 4 * 32, 1);
  const std::vector<std::uint32_t> order = {1, 0xFFFFFFFFu};  // pair 1 is token 0
  MatmulTensors tensors;
  tensors.a = a.data();
  tensors.b = {b.data(), nullptr, nullptr, nullptr};
  tensors.bias = bias.data();
  tensors.order = order.data();
  CHECK(reference::matmul_row(spec, tensors, 0, 0)[3].value == (256 + 1) * (512 + 1));
  CHECK(reference::matmul_row(spec, tensors, 0, 0)[4].value == 1);
  CHECK(reference::matmul_row(spec, tensors, 1, 0)[3].value == 1);   // a row of zeros still has its bias
  CHECK(reference::matmul_row(spec, tensors, 0, -1)[3].value == 0);  // no expert, no bias
  spec.fields.activation.gate_layout = GateLayout::interleaved;
  CHECK(reference::matmul_row(spec, tensors, 0, 0)[1].value == 1 + 256);      // columns 2 and 3
  CHECK(reference::matmul_row(spec, tensors, 0, 0)[9].value == 1 + 2 * 256);  // columns 18 and 19
}

TEST_CASE("an expression sees row, column and the expert's id in the model") {
  ConfigFields fields = fields_of(R"("indices": {"first_expert": 1, "num_local_experts": 2},
      "experts": {"down_epilogue": "value + row + 10 * col + 1000 * expert + per * 1e6",
                  "down_inputs": {"per": {"dtype": "float32", "shape": "experts_columns"}}})");
  MatmulSpec spec = up_of(fields);
  spec.up = false;
  const auto a = filled(Dtype::bfloat16, 5 * 256, 0), b = filled(Dtype::bfloat16, 32 * 256, 0);
  std::vector<float> per(2 * 32, 0);
  per[1 * 32 + 2] = 1;
  per[0 * 32 + 2] = 2;
  MatmulTensors tensors;
  tensors.a = a.data();
  tensors.b = {nullptr, b.data()};
  tensors.inputs = {per.data()};
  CHECK(reference::matmul_row(spec, tensors, 4, 1)[2].value == 4 + 20 + 2000 + 1e6);
  CHECK(reference::matmul_row(spec, tensors, 4, -1)[2].value == 4 + 20 - 1000 + 2e6);  // inputs of expert 0
}

namespace {

// Adds `products` to `sum` as tensor cores do: everything is aligned to the largest addend and cut below `unit` of it.
double cut_sum(double sum, const std::vector<double>& products, double unit) {
  double largest = std::abs(sum);
  for (double product : products) largest = std::max(largest, std::abs(product));
  if (largest == 0) return 0;
  const double step = std::ldexp(unit, std::ilogb(largest));
  double total = std::trunc(sum / step) * step;
  for (double product : products) total += std::trunc(product / step) * step;
  return std::trunc(total / step) * step;
}

// One element on such cores; `interval` as in the reference.
double cut_dot(const std::vector<float>& a, const std::vector<float>& b, std::size_t depth, std::size_t interval,
               double unit) {
  float total = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += interval) {
    double sum = 0;
    for (std::size_t k = begin; k < std::min(begin + interval, a.size()); k += depth) {
      std::vector<double> products;
      for (std::size_t i = k; i < std::min(k + depth, a.size()); ++i) products.push_back(double{a[i]} * double{b[i]});
      sum = cut_sum(sum, products, unit);
    }
    total += static_cast<float>(sum);
  }
  return double{total};
}

struct Worst {
  double of_bound = 0;  ///< largest error, as a share of its bound
  double bound = 0;     ///< largest bound, as a share of the values' root mean square
};

Worst measure(const MatmulSpec& spec, std::size_t interval) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto depth = static_cast<std::size_t>(spec.depth);
  const std::size_t instruction = static_cast<std::size_t>(256 / bits(spec.input()));
  Worst worst;
  for (int i = 0; i < 60; ++i) {
    std::vector<float> a(depth), b(depth);
    for (std::size_t k = 0; k < depth; ++k) {
      std::uint32_t word = 0;
      reference::store(spec.input(), &word, 0, double{normal(random)});
      a[k] = static_cast<float>(reference::load(spec.input(), &word, 0));
      reference::store(spec.input(), &word, 0, double{normal(random)});
      b[k] = static_cast<float>(reference::load(spec.input(), &word, 0));
    }
    const std::vector<double> ones(static_cast<std::size_t>(spec.scales_of_row()), 1.0);
    const Bounded want = reference::matmul_sum(spec, a.data(), b.data(), ones);
    const double got = cut_dot(a, b, instruction, interval, spec.unit);
    worst.of_bound = std::max(worst.of_bound, std::abs(got - want.value) / want.error);
    worst.bound = std::max(worst.bound, want.error / std::sqrt(static_cast<double>(depth)));
  }
  return worst;
}

}  // namespace

TEST_CASE("the bound of a sum holds on tensor cores that cut, and is no loose one") {
  MatmulSpec fast = up_of(fields_of(R"("dtypes": {"weight": "float8_e4m3fn", "accumulate": "fast"},
                                       "quantization": {"scheme": "rowwise"})"));
  MatmulSpec promoted = up_of(fields_of(kRowwise)), plain = up_of(fields_of(R"("dtypes": {})"));
  for (MatmulSpec* spec : {&fast, &promoted, &plain}) spec->depth = 7168;
  fast.unit = promoted.unit = 0x1p-13;
  const Worst of_fast = measure(fast, 7168), of_promoted = measure(promoted, 128), of_plain = measure(plain, 7168);
  CHECK(of_fast.of_bound < 1);
  CHECK(of_fast.of_bound > 0.02);
  CHECK(of_fast.bound < 0.25);
  CHECK(of_promoted.of_bound < 1);
  CHECK(of_promoted.of_bound > 0.01);
  CHECK(of_promoted.bound < 0.02);
  CHECK(of_plain.of_bound < 1);
  CHECK(of_plain.bound < 1e-3);
}

TEST_CASE("activations by hand") {
  ActivationConfig config;
  const auto value = [&](double gate, double up, std::optional<double> limit = {}) {
    return reference::activate(config, {gate, 0}, {up, 0}, limit).value;
  };
  CHECK(value(1, 2) == doctest::Approx(2 * 0.7310585786300049).epsilon(1e-12));
  CHECK(value(100, 100, 7) == doctest::Approx(49 * 1 / (1 + std::exp(-7.0))).epsilon(1e-12));
  CHECK(value(-100, -100, 7) == doctest::Approx(-7 * -100 * std::exp(-100.0)).epsilon(1e-12));  // gate: only from above
  CHECK(std::isnan(value(std::nan(""), 1, 7)));
  CHECK(std::isnan(value(1, std::nan(""), 7)));
  CHECK(value(-HUGE_VAL, 3) == 0);
  config.kind = ActivationKind::swiglu_oai;
  config.alpha = 1.702;
  CHECK(value(2, 3) == doctest::Approx(2 / (1 + std::exp(-3.404)) * 4).epsilon(1e-12));
  config.kind = ActivationKind::gelu;
  CHECK(value(1, 1) == doctest::Approx(0.8413447460685429).epsilon(1e-12));
  config.kind = ActivationKind::gelu_tanh;
  CHECK(value(1, 1) == doctest::Approx(0.8411919906082768).epsilon(1e-12));
  config.kind = ActivationKind::situ;
  config.beta = 4;
  config.linear_beta = 25;
  CHECK(value(1, 2) == doctest::Approx(4 * std::tanh(0.25) * 0.7310585786300049 * 25 * std::tanh(0.08)).epsilon(1e-12));
  config.gated = false;
  config.kind = ActivationKind::relu2;
  CHECK(value(3, 99) == 9);
  CHECK(value(-3, 99) == 0);
  CHECK(std::isnan(value(std::nan(""), 0)));
  config.kind = ActivationKind::identity;
  CHECK(value(3, 99) == 3);
}

TEST_CASE("the bound of an activation holds for inputs off by their own") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> wide(-12, 12), share(-1, 1);
  for (ActivationKind kind :
       {ActivationKind::silu, ActivationKind::swiglu_oai, ActivationKind::gelu, ActivationKind::gelu_tanh,
        ActivationKind::relu2, ActivationKind::situ, ActivationKind::identity}) {
    ActivationConfig config;
    config.kind = kind;
    config.alpha = 1.702;
    config.beta = 4;
    config.linear_beta = 25;
    config.gated = kind != ActivationKind::relu2;
    for (int i = 0; i < 2000; ++i) {
      const Bounded gate{wide(random), 0.01 * std::abs(share(random))},
          up{wide(random), 0.01 * std::abs(share(random))};
      const std::optional<double> limit = i % 2 ? std::optional(7.0) : std::nullopt;
      const Bounded want = reference::activate(config, gate, up, limit);
      const Bounded off = reference::activate(config, {gate.value + share(random) * gate.error, 0},
                                              {up.value + share(random) * up.error, 0}, limit);
      CHECK(std::abs(off.value - want.value) <= want.error);
    }
  }
}

TEST_CASE("scales and codes of float8_e4m3fn") {
  CHECK(reference::e4m3_scale(448, 1e-10, Dtype::float32) == 1);
  CHECK(reference::e4m3_scale(0, 1e-10, Dtype::float32) == double{1e-10f / 448.0f});
  CHECK(reference::e4m3_scale(1, 1e-10, Dtype::float32) == double{1.0f / 448.0f});
  CHECK(reference::e4m3_scale(448, 1e-10, Dtype::float8_e8m0fnu) == 1);
  CHECK(reference::e4m3_scale(449, 1e-10, Dtype::float8_e8m0fnu) == 2);
  CHECK(reference::e4m3_value(100, 2) == 48);  // 50 lies between 48 and 52, a tie: to the even code
  CHECK(reference::e4m3_value(1e30, 1) == 448);
  CHECK(std::isnan(reference::e4m3_value(std::nan(""), 1)));
  CHECK(reference::e4m3_distance(1, 1) == 0);
  CHECK(reference::e4m3_distance(1, 1.125) == 1);
  CHECK(reference::e4m3_distance(-0x1p-9, 0x1p-9) == 2);
  CHECK(reference::e4m3_distance(-0.0, 0.0) == 0);
  CHECK(reference::e4m3_distance(std::nan(""), 448) > 100);
}
