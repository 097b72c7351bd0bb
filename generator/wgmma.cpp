// SPDX-License-Identifier: Apache-2.0
#include "wgmma.hpp"

#include <fmt/format.h>

#include <moegen/error.hpp>

namespace moegen {
namespace {

constexpr int kPerLine = 8;

// How one element type is spelled: in PTX, in the model's calls, and the elements of K of one instruction.
struct Spelling {
  std::string_view ptx, code;
  int depth;
};

Spelling spelling_of(Dtype element) {
  switch (element) {
    case Dtype::bfloat16: return {"bf16", "MOEGEN_CPU_BFLOAT16", 16};
    case Dtype::float16: return {"f16", "MOEGEN_CPU_FLOAT16", 16};
    case Dtype::float8_e4m3fn: return {"e4m3", "MOEGEN_CPU_E4M3", 32};
    default: break;
  }
  throw Error(ErrorCode::internal, fmt::format("wgmma has no elements of type {}", to_string(element)));
}

// "%0, %1, ...", in lines of asm text.
std::string register_list(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (i % kPerLine == 0) out += i == 0 ? "      \"{" : " \"\n      \"";
    out += fmt::format("%{}{}", i, i + 1 < count ? "," : "");
    if (i + 1 < count && i % kPerLine != kPerLine - 1) out += " ";
  }
  return out + "}, \"\n";
}

// "+f"(d[0]), "+f"(d[1]), ...
std::string operand_list(int count) {
  std::string out = "      : ";
  for (int i = 0; i < count; ++i) {
    out += fmt::format("\"+f\"(d[{}])", i);
    if (i + 1 < count) out += i % kPerLine == kPerLine - 1 ? ",\n        " : ", ";
  }
  return out + "\n";
}

// The operands that follow the accumulators: text of A and of what stands behind B, and the asm inputs for A.
struct SourceOfA {
  std::string parameter, text, inputs, cpu_arguments;
  int num_operands;
  bool in_registers;
};

SourceOfA a_from_shared(int first) {
  return {"uint64_t a", fmt::format("%{}", first), "\"l\"(a)", "a, nullptr", 1, false};
}

SourceOfA a_from_registers(int first) {
  return {"const uint32_t (&a)[4]",
          fmt::format("{{%{}, %{}, %{}, %{}}}", first, first + 1, first + 2, first + 3),
          "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])",
          "0, a",
          4,
          true};
}

// Whether M or N is contiguous is said for operands of 16-bit elements in shared memory only.
std::string order_text(const SourceOfA& a, int first, bool is_16_bit) {
  if (!is_16_bit) return "";
  return a.in_registers ? fmt::format(", %{}", first + 1) : fmt::format(", %{}, %{}", first, first + 1);
}

std::string order_inputs(const SourceOfA& a, bool is_16_bit) {
  if (!is_16_bit) return "";
  return a.in_registers ? ", \"n\"(b_transposed ? 1 : 0)"
                        : ", \"n\"(a_transposed ? 1 : 0), \"n\"(b_transposed ? 1 : 0)";
}

std::string spell_multiply(const WgmmaShape& shape, const SourceOfA& a) {
  const Spelling element = spelling_of(shape.element);
  const bool is_16_bit = element.depth == 16;
  const int accumulators = shape.n / 2, b = accumulators + a.num_operands, accumulate = b + 1;
  const int order = a.in_registers ? accumulate : accumulate + 1;
  std::string out = fmt::format(
      "  template <bool a_transposed = false, bool b_transposed = false>\n"
      "  static MOEGEN_DEVICE void multiply(float (&d)[{}], {}, uint64_t b, bool accumulate) {{\n",
      accumulators, a.parameter);
  if (!is_16_bit)
    out += "    static_assert(!a_transposed && !b_transposed, \"8-bit elements have K contiguous\");\n";
  else if (a.in_registers)
    out += "    static_assert(!a_transposed, \"registers have one order\");\n";
  out += fmt::format(
      "#ifdef MOEGEN_TARGET_CPU\n"
      "    cpu::wgmma(d, {}, {}, {}, b, accumulate | a_transposed << 3 | b_transposed << 4);\n"
      "#else\n"
      "    asm volatile(\n"
      "      \"{{\\n.reg .pred accumulate;\\nsetp.ne.b32 accumulate, %{}, 0;\\n\"\n"
      "      \"wgmma.mma_async.sync.aligned.m64n{}k{}.f32.{}.{} \"\n",
      shape.n, element.code, a.cpu_arguments, accumulate, shape.n, element.depth, element.ptx, element.ptx);
  out += register_list(accumulators);
  out += fmt::format("      \"{}, %{}, accumulate, 1, 1{};\\n}}\"\n", a.text, b, order_text(a, order, is_16_bit));
  out += operand_list(accumulators);
  out += fmt::format("      : {}, \"l\"(b), \"r\"(static_cast<uint32_t>(accumulate)){});\n#endif\n  }}\n", a.inputs,
                     order_inputs(a, is_16_bit));
  return out;
}

}  // namespace

std::string spell_wgmma(const WgmmaShape& shape) {
  if (shape.n < 8 || shape.n > 256 || shape.n % 8 != 0)
    throw Error(ErrorCode::internal, fmt::format("wgmma has no product of {} columns", shape.n));
  const int accumulators = shape.n / 2;
  return fmt::format(
      "template <>\n"
      "struct Wgmma<{}, {}> {{\n"
      "  /// d = a * b + (accumulate ? d : 0). A transposed operand has M or N contiguous.\n"
      "{}"
      "  /// The same with this thread's part of A in registers, as mma has it.\n"
      "{}}};\n",
      to_string(shape.element), shape.n, spell_multiply(shape, a_from_shared(accumulators)),
      spell_multiply(shape, a_from_registers(accumulators)));
}

}  // namespace moegen
