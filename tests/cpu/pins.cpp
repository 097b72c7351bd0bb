// SPDX-License-Identifier: Apache-2.0
#include "cpu/pins.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "support/core_text.hpp"
#include "wgmma.hpp"

namespace moegen::test {
namespace {

// ---- input ---------------------------------------------------------------------------------------------------

/// Numbers without a pattern that an address error could reproduce.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::uint32_t>(state_ >> 33);
  }

 private:
  std::uint64_t state_;
};

void append(Bytes& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<unsigned char>(value >> 8 * i));
}

/// Elements 1, 2, 3, ... of `element_bytes`, modulo what they hold: each says where it was.
Bytes counted(std::uint64_t elements, std::uint32_t element_bytes) {
  Bytes bytes;
  for (std::uint64_t i = 0; i < elements; ++i)
    append(bytes, element_bytes == 1 ? i * 7 + i / 256 * 3 + 1 : i + 1, static_cast<int>(element_bytes));
  return bytes;
}

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  Sequence sequence(seed);
  Bytes bytes;
  while (bytes.size() < count) append(bytes, sequence.next(), 1);
  return bytes;
}

/// The code of a whole number from -4 to 4.
std::uint32_t code_of(Dtype element, int value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)), sign = bits >> 31;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (element == Dtype::bfloat16) return bits >> 16;
  if (element == Dtype::float16) return sign << 15 | (magnitude == 0 ? 0 : (magnitude - (112u << 23)) >> 13);
  return sign << 7 | (magnitude == 0 ? 0 : (magnitude - (120u << 23)) >> 20);
}

/// Small whole numbers as elements: sums of their products are exact in float.
Bytes small_numbers(Dtype element, std::size_t bytes_wanted, std::uint64_t seed) {
  Sequence sequence(seed);
  Bytes bytes;
  while (bytes.size() < bytes_wanted)
    append(bytes, code_of(element, static_cast<int>(sequence.next() % 9) - 4), bits(element) / 8);
  return bytes;
}

/// Floats at which rounding, overflow and special values decide, for every narrow type.
Bytes hard_floats() {
  std::vector<std::uint32_t> values = {0,          1,          0x7FFFFF,   0x400000,   0x400001,   0x3FFFFF,
                                       0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFFC00000, 0x7F7FFFFF};
  for (std::uint32_t exponent :
       {1u,   90u,  102u, 103u, 104u, 109u, 110u, 111u, 112u, 113u, 116u, 117u, 118u, 119u, 120u,
        121u, 124u, 125u, 126u, 127u, 128u, 129u, 134u, 135u, 136u, 141u, 142u, 143u, 253u, 254u})
    for (std::uint32_t mantissa : {0u, 0x7FFFu, 0x8000u, 0x8001u, 0x1000u, 0x3000u, 0x080000u, 0x100001u, 0x180000u,
                                   0x200001u, 0x400000u, 0x600000u, 0x700000u, 0x7FFFFFu})
      values.push_back(exponent << 23 | mantissa);
  Bytes bytes;
  for (std::uint32_t value : values) append(bytes, value, 4);
  return bytes;
}

// ---- tensor copies -------------------------------------------------------------------------------------------

constexpr std::uint32_t kTileBytes = 4096;  // of a store's source

struct TileCase {
  std::string name;
  TensorElement element;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint32_t> box;
  TensorSwizzle swizzle;
  std::vector<int> at;
  std::uint32_t offset = 0;
};

TensorMapDescription describe(const TileCase& tile) {
  TensorMapDescription map{.element = tile.element,
                           .base = nullptr,
                           .dims = tile.dims,
                           .strides = {},
                           .box = tile.box,
                           .swizzle = tile.swizzle,
                           .name = tile.name};
  std::uint64_t stride = tile.dims[0] * element_bytes(tile.element);
  for (std::size_t i = 1; i < tile.dims.size(); ++i) {
    map.strides.push_back(stride);
    stride *= tile.dims[i];
  }
  return map;
}

std::uint64_t volume(const std::vector<std::uint64_t>& dims) {
  std::uint64_t product = 1;
  for (std::uint64_t dim : dims) product *= dim;
  return product;
}

std::string coordinates(const TileCase& tile) {
  std::string text;
  for (int at : tile.at) text += fmt::format(", {}", at);
  return text;
}

Pin load_pin(const TileCase& tile) {
  std::uint32_t bytes = element_bytes(tile.element), rows = 1;
  for (std::uint32_t extent : tile.box) bytes *= extent;
  for (std::size_t i = 1; i < tile.box.size(); ++i) rows *= tile.box[i];
  const std::uint32_t size = tile.offset + rows * std::max(bytes / rows, span_bytes(tile.swizzle));
  Pin pin;
  pin.name = tile.name;
  pin.call = fmt::format("moegen::pins::load_tile(args, {}, {}, {}{});", tile.offset, bytes, size, coordinates(tile));
  pin.input = counted(volume(tile.dims), element_bytes(tile.element));
  pin.output_bytes = size;
  pin.shared_bytes = size + 16;
  pin.map = describe(tile);
  return pin;
}

Pin store_pin(const TileCase& tile) {
  Pin pin;
  pin.name = tile.name;
  pin.call = fmt::format("moegen::pins::store_tile(args, {}{});", kTileBytes, coordinates(tile));
  pin.input = counted(kTileBytes / element_bytes(tile.element), element_bytes(tile.element));
  pin.output_bytes = static_cast<std::uint32_t>(volume(tile.dims) * element_bytes(tile.element));
  pin.shared_bytes = kTileBytes;
  pin.map = describe(tile);
  pin.map_of_output = true;
  return pin;
}

constexpr TensorSwizzle kSwizzles[] = {TensorSwizzle::none, TensorSwizzle::span_32, TensorSwizzle::span_64,
                                       TensorSwizzle::span_128};

/// For each swizzle and element size a tile across the first corner of the tensor and one across the last. The hardware
/// takes no negative coordinates for a store: its first tile begins inside.
std::vector<TileCase> corner_tiles(const std::string& prefix) {
  const int side = prefix == "store" ? 1 : -1;
  std::vector<TileCase> tiles;
  for (TensorSwizzle swizzle : kSwizzles) {
    for (TensorElement element : {TensorElement::bfloat16, TensorElement::uint8}) {
      const std::uint32_t size = element_bytes(element), span = span_bytes(swizzle);
      const std::uint32_t width = (span == 0 ? 64 : span) / size;
      const std::string name = fmt::format("{}_swizzle_{}_bytes_{}", prefix, span, size);
      tiles.push_back({name + "_first",
                       element,
                       {160 / size, 24},
                       {width, 16},
                       swizzle,
                       {side * static_cast<int>(16 / size), 2 * side}});
      tiles.push_back({name + "_last",
                       element,
                       {160 / size, 24},
                       {width, 16},
                       swizzle,
                       {static_cast<int>((160 + 16) / size - width), 11}});
    }
  }
  return tiles;
}

PinGroup tensor_loads() {
  PinGroup group{"tensor_load", "", {}};
  for (const TileCase& tile : corner_tiles("load")) group.pins.push_back(load_pin(tile));
  const auto add = [&](TileCase tile) { group.pins.push_back(load_pin(tile)); };
  add({"load_inside", TensorElement::uint16, {64, 24}, {64, 16}, TensorSwizzle::span_128, {0, 3}});
  add({"load_off_the_pattern", TensorElement::uint16, {64, 24}, {64, 8}, TensorSwizzle::span_128, {0, 0}, 384});
  add({"load_narrow_in_128", TensorElement::uint16, {64, 24}, {16, 16}, TensorSwizzle::span_128, {8, 1}});
  add({"load_narrow_in_64", TensorElement::uint16, {64, 24}, {8, 16}, TensorSwizzle::span_64, {8, 1}});
  add({"load_1d", TensorElement::uint32, {256}, {128}, TensorSwizzle::none, {200}});
  add({"load_3d", TensorElement::uint16, {32, 6, 5}, {32, 4, 3}, TensorSwizzle::span_64, {8, -1, 3}});
  add({"load_4d", TensorElement::uint16, {16, 4, 3, 4}, {16, 3, 2, 2}, TensorSwizzle::span_32, {-8, 2, 1, 3}});
  add({"load_5d", TensorElement::uint8, {32, 3, 3, 2, 3}, {32, 2, 2, 2, 2}, TensorSwizzle::none, {16, 2, -1, 1, 2}});
  add({"load_far_outside", TensorElement::uint16, {64, 24}, {64, 8}, TensorSwizzle::span_128, {64, -2147483647}});
  return group;
}

PinGroup tensor_stores() {
  PinGroup group{"tensor_store", "", {}};
  for (const TileCase& tile : corner_tiles("store"))
    if (tile.element != TensorElement::uint8) group.pins.push_back(store_pin(tile));
  group.pins.push_back(
      store_pin({"store_narrow_in_128", TensorElement::uint16, {64, 24}, {16, 16}, TensorSwizzle::span_128, {8, 1}}));
  return group;
}

// ---- products ------------------------------------------------------------------------------------------------

constexpr std::uint32_t kImageBytes = 65536;

struct ProductCase {
  Dtype element;
  int n;
  std::uint32_t span;  ///< of the swizzle
  std::uint32_t leading, stride, step_a, step_b, steps;
  bool in_registers = false, transpose_a = false, transpose_b = false;
};

std::string product_name(const ProductCase& c) {
  return fmt::format("wgmma_{}_n{}_swizzle_{}_leading_{}_stride_{}{}{}{}", to_string(c.element), c.n, c.span, c.leading,
                     c.stride, c.in_registers ? "_registers" : "", c.transpose_a ? "_ta" : "",
                     c.transpose_b ? "_tb" : "");
}

Pin product_pin(const ProductCase& c) {
  constexpr const char* kNames[] = {"none", "span_32", "span_64", "", "span_128"};
  Pin pin;
  pin.name = product_name(c);
  pin.call =
      fmt::format("moegen::pins::multiply<{}, {}, {}, {}, {}>(args, {}, {{0, {}, Swizzle::{}, {}, {}, {}, {}, {}}});",
                  to_string(c.element), c.n, c.in_registers, c.transpose_a, c.transpose_b, kImageBytes, kImageBytes / 2,
                  kNames[c.span / 32], c.leading, c.stride, c.step_a, c.step_b, c.steps);
  pin.input = small_numbers(c.element, kImageBytes, static_cast<std::uint64_t>(c.n) * 131 + c.span + c.stride);
  pin.output_bytes = static_cast<std::uint32_t>(64 * c.n * 2);
  pin.shared_bytes = kImageBytes;
  return pin;
}

/// K contiguous: every swizzle, over two steps of K inside the span where it has them.
std::vector<ProductCase> k_contiguous(Dtype element, int n) {
  return {{element, n, 0, 128, 256, 1024, 2048, 2},   {element, n, 0, 2048, 128, 16, 4096, 2},
          {element, n, 32, 0, 256, 4096, 4096, 2},    {element, n, 32, 0, 512, 4096, 8192, 2},
          {element, n, 64, 0, 512, 32, 32, 2},        {element, n, 64, 0, 1024, 32, 32, 2},
          {element, n, 128, 0, 1024, 32, 32, 4},      {element, n, 128, 0, 2048, 32, 32, 4},
          {element, n, 128, 0, 1024, 0, 32, 3, true}, {element, n, 0, 128, 256, 0, 2048, 2, true}};
}

/// M and N contiguous: every swizzle and combination.
std::vector<ProductCase> transposed(Dtype element, int n) {
  std::vector<ProductCase> cases;
  for (bool a : {false, true}) {
    // An operand that is not transposed reads the same descriptor with K contiguous.
    cases.push_back({element, n, 0, 1024, 128, 2048, 2048, 2, false, a, true});
    cases.push_back({element, n, 32, 2048, 256, 4096, 4096, 2, false, a, true});
    cases.push_back({element, n, 64, 2048, 512, 4096, 4096, 2, false, a, true});
    cases.push_back({element, n, 128, 4096, 1024, 2048, 2048, 2, false, a, true});
  }
  cases.push_back({element, n, 128, 4096, 1024, 2048, 2048, 2, false, true, false});
  cases.push_back({element, n, 128, 4096, 1024, 0, 2048, 2, true, false, true});
  return cases;
}

PinGroup products(Dtype element) {
  PinGroup group{"wgmma_" + std::string(to_string(element)), "", {}};
  const auto add = [&](const std::vector<ProductCase>& cases) {
    group.specialisations += spell_wgmma({element, cases[0].n});
    for (const ProductCase& c : cases) group.pins.push_back(product_pin(c));
  };
  add(k_contiguous(element, 8));
  add({{element, 24, 64, 0, 512, 32, 32, 2}});
  add({{element, 40, 128, 0, 1024, 32, 32, 4}});
  if (element == Dtype::bfloat16) {
    add(transposed(element, 16));
    add({{element, 72, 128, 4096, 1024, 2048, 2048, 2, false, true, true}});
  } else if (element == Dtype::float16) {
    add({{element, 16, 128, 4096, 1024, 2048, 2048, 2, false, true, true}});
  }
  return group;
}

PinGroup warp_products() {
  PinGroup group{"warp_matrix", "", {}};
  for (Dtype element : {Dtype::bfloat16, Dtype::float16, Dtype::float8_e4m3fn}) {
    Pin pin;
    pin.name = "mma_" + std::string(to_string(element));
    pin.call = fmt::format("moegen::pins::multiply_warp<{}>(args);", to_string(element));
    pin.input = small_numbers(element, 1024, 5);
    pin.output_bytes = 256;
    pin.threads = 32;
    group.pins.push_back(pin);
  }
  for (int count : {1, 2, 4}) {
    for (bool transpose : {false, true}) {
      Pin pin;
      pin.threads = 32;
      pin.shared_bytes = 512;
      pin.input = random_bytes(512, static_cast<std::uint64_t>(count));
      pin.name = fmt::format("ldmatrix_x{}{}", count, transpose ? "_trans" : "");
      pin.call = fmt::format("moegen::pins::load_matrices<{}, {}>(args);", transpose, count);
      pin.output_bytes = static_cast<std::uint32_t>(128 * count);
      group.pins.push_back(pin);
      pin.name = fmt::format("stmatrix_x{}{}", count, transpose ? "_trans" : "");
      pin.call = fmt::format("moegen::pins::store_matrices<{}, {}>(args);", transpose, count);
      pin.output_bytes = 512;
      group.pins.push_back(pin);
    }
  }
  return group;
}

PinGroup conversions() {
  constexpr const char* kNarrow[] = {"bfloat16", "float16", "e4m3", "e5m2", "e2m1", "e8m0_up"};
  constexpr const char* kWide[] = {"e4m3", "e5m2", "e2m1", "e8m0"};
  PinGroup group{"conversions", "", {}};
  const Bytes floats = hard_floats();
  for (int i = 0; i < 6; ++i) {
    Pin table;
    table.name = fmt::format("to_{}_table", kNarrow[i]);
    table.call = fmt::format("moegen::pins::narrow_table<{}>(args, {});", i, floats.size() / 4);
    table.input = floats;
    table.output_bytes = static_cast<std::uint32_t>(floats.size());
    Pin digest;
    digest.name = fmt::format("to_{}_digest", kNarrow[i]);
    digest.call = fmt::format("moegen::pins::narrow_digest<{}>(args, 1021);", i);
    digest.output_bytes = 32 * 8;
    digest.threads = 32;
    group.pins.push_back(table);
    group.pins.push_back(digest);
  }
  for (int i = 0; i < 4; ++i) {
    Pin pin;
    pin.name = fmt::format("from_{}_all", kWide[i]);
    pin.call = fmt::format("moegen::pins::widen_all<{}>(args);", i);
    pin.output_bytes = 2048;
    group.pins.push_back(pin);
  }
  Pin halves;
  halves.name = "from_float16_digest";
  halves.call = "moegen::pins::widen_float16(args);";
  halves.output_bytes = 32 * 8;
  halves.threads = 32;
  group.pins.push_back(halves);
  return group;
}

// ---- fixtures ------------------------------------------------------------------------------------------------

std::vector<std::string> hex_lines(const Bytes& bytes) {
  constexpr std::size_t kBytesOfLine = 64;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % kBytesOfLine == 0) lines.emplace_back();
    lines.back() += fmt::format("{:02x}", bytes[i]);
  }
  return lines;
}

/// A line of digits, perhaps followed by " x TIMES".
void append_line(Bytes& bytes, const std::string& line) {
  const std::size_t digits = std::min(line.find(' '), line.size());
  const int times = digits == line.size() ? 1 : std::stoi(line.substr(line.find('x') + 1));
  for (int repeat = 0; repeat < times; ++repeat)
    for (std::size_t i = 0; i + 1 < digits; i += 2)
      bytes.push_back(static_cast<unsigned char>(std::stoi(line.substr(i, 2), nullptr, 16)));
}

}  // namespace

std::string PinGroup::text() const {
  std::string out = core_text() + "namespace moegen {\n" + specialisations + "}\n" +
                    without_includes(file_text("tests/cpu/kernels/pins.cuh"));
  for (const Pin& pin : pins)
    out += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, 1) {}(const __grid_constant__ moegen::pins::Arguments "
        "args) {{\n"
        "  using namespace moegen;\n  {}\n}}\n",
        pin.threads, pin.name, pin.call);
  return out;
}

std::vector<PinGroup> pin_groups() {
  std::vector<PinGroup> groups = {tensor_loads(), tensor_stores(), warp_products(), conversions()};
  for (Dtype element : {Dtype::bfloat16, Dtype::float16, Dtype::float8_e4m3fn}) groups.push_back(products(element));
  return groups;
}

std::string format_fixture(const std::string& comment, const std::map<std::string, Bytes>& outputs) {
  std::string text = "# " + comment + "\n";
  for (const auto& [name, bytes] : outputs) {
    text += fmt::format("[{}] {}\n", name, bytes.size());
    const std::vector<std::string> lines = hex_lines(bytes);
    for (std::size_t i = 0, next = 0; i < lines.size(); i = next) {
      for (next = i + 1; next < lines.size() && lines[next] == lines[i];) ++next;
      text += next - i == 1 ? lines[i] + "\n" : fmt::format("{} x {}\n", lines[i], next - i);
    }
  }
  return text;
}

std::map<std::string, Bytes> parse_fixture(std::string_view text) {
  std::map<std::string, Bytes> outputs;
  Bytes* bytes = nullptr;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[')
      bytes = &outputs[line.substr(1, line.find(']') - 1)];
    else if (bytes)
      append_line(*bytes, line);
    else
      throw std::runtime_error("a fixture begins with '[name] bytes'");
  }
  return outputs;
}

std::string fixture_path(const PinGroup& group) { return "tests/cpu/pins/" + group.name + ".txt"; }

}  // namespace moegen::test
