// SPDX-License-Identifier: Apache-2.0
#include "config_rules.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include <fmt/format.h>

#include <moegen/error.hpp>

#include "config_fields.hpp"
#include "did_you_mean.hpp"

namespace moegen {
namespace {

// The fields under check, and how a broken rule is reported.
struct Rules {
  const ConfigFields& fields;
  std::string_view origin;

  template <class... Args>
  void require(bool holds, std::string_view pointer, fmt::format_string<Args...> sentence, Args&&... args) const {
    if (holds) return;
    throw Error(ErrorCode::config,
                fmt::format("{}: {}: {}", origin, pointer, fmt::format(sentence, std::forward<Args>(args)...)));
  }
};

template <class Value>
bool is_one_of(Value value, std::initializer_list<Value> values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// ---- sizes ----

// The dtype with the most elements in 16 bytes decides what a width is a multiple of.
Dtype narrowest(std::initializer_list<Dtype> dtypes) {
  return std::min(dtypes, [](Dtype a, Dtype b) { return bits(a) < bits(b); });
}

void check_width(const Rules& rules, std::string_view pointer, std::int64_t width, Dtype dtype) {
  const std::int64_t step = 128 / bits(dtype);
  const std::int64_t below = width / step * step;
  rules.require(width % step == 0, pointer,
                "is {}, which is no whole number of 16-byte pieces of {}; nearest allowed {}", width, to_string(dtype),
                below == 0 ? std::to_string(step) : fmt::format("{} and {}", below, below + step));
}

void check_widths(const Rules& rules) {
  const ConfigFields& f = rules.fields;
  const Dtype inner = narrowest({f.dtypes.activation, f.dtypes.weight});
  const Dtype rows = narrowest({inner, f.finalize.down, f.finalize.output});
  const bool latent = f.expert_hidden != f.hidden;
  check_width(rules, "/hidden", f.hidden, latent ? f.dtypes.activation : rows);
  check_width(rules, "/expert_hidden", f.expert_hidden, rows);
  check_width(rules, "/intermediate", f.intermediate, inner);
  if (f.shared_experts.count != 0)
    check_width(rules, "/shared_experts/intermediate", f.shared_experts.intermediate, inner);
}

void check_counts(const Rules& rules) {
  const ConfigFields& f = rules.fields;
  const int shared = f.num_slots() - f.top_k;
  rules.require(f.num_experts + f.num_zero_experts <= kMaxExperts, "/num_zero_experts",
                "makes {} experts with num_experts {}; together at most {}", f.num_experts + f.num_zero_experts,
                f.num_experts, kMaxExperts);
  rules.require(f.top_k <= f.num_experts, "/top_k", "is {}, but num_experts is {}; at most num_experts", f.top_k,
                f.num_experts);
  rules.require(f.num_slots() <= kMaxTopK, "/router/shared_slots/count",
                "makes {} slots of a token with top_k {}; allowed {} here", f.num_slots(), f.top_k, kMaxTopK - f.top_k);
  constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();
  const std::int64_t rows =
      f.max_tokens * f.num_slots() + std::int64_t{f.num_experts + shared} * (f.indices.pad_rows_to - 1);
  rules.require(rows <= kMaxRows, "/max_tokens", "is {}, which makes up to {} rows; at most {} rows", f.max_tokens,
                rows, kMaxRows);
}

// ---- router ----

void check_order(const Rules& rules) {
  const RouterConfig& r = rules.fields.router;
  const bool late = r.order == RouterOrder::select_then_score;
  rules.require(!late || is_one_of(r.scoring, {Scoring::softmax, Scoring::sigmoid}), "/router/order",
                "is select_then_score with scoring {}; select_then_score goes with softmax or sigmoid",
                to_word(r.scoring));
  rules.require(!r.scores || r.scoring == Scoring::none, "/router/scoring",
                "is {} beside the expression 'scores'; scoring is none where scores is given", to_word(r.scoring));
}

void check_groups(const Rules& rules) {
  const ConfigFields& f = rules.fields;
  const RouterConfig& r = f.router;
  rules.require(f.num_experts % r.num_groups == 0, "/router/num_groups",
                "is {}, which does not divide num_experts {}; a divisor of num_experts", r.num_groups, f.num_experts);
  rules.require(r.top_groups <= r.num_groups, "/router/top_groups", "is {} of {} groups; at most num_groups",
                r.top_groups, r.num_groups);
  const int group = f.num_experts / r.num_groups;
  rules.require(r.top_groups * group >= f.top_k, "/router/top_groups",
                "is {}, whose {} experts are fewer than top_k {}; at least {}", r.top_groups, r.top_groups * group,
                f.top_k, (f.top_k + group - 1) / group);
}

// ---- indices ----

std::int64_t ids_of(Dtype dtype) {
  if (dtype == Dtype::uint8) return std::int64_t{1} << 8;
  if (dtype == Dtype::uint16) return std::int64_t{1} << 16;
  return std::numeric_limits<std::int32_t>::max();
}

void check_indices(const Rules& rules) {
  const ConfigFields& f = rules.fields;
  const IndicesConfig& i = f.indices;
  const int ids = f.num_experts + f.num_zero_experts + f.num_slots() - f.top_k;
  rules.require(ids <= ids_of(i.ids), "/indices/ids",
                "is {}, which holds {} ids of {} (experts, zero experts and shared slots); a wider dtype",
                to_string(i.ids), ids_of(i.ids), ids);
  rules.require(i.first_expert < f.num_experts, "/indices/first_expert", "is {} of {} experts; allowed 0 to {}",
                i.first_expert, f.num_experts, f.num_experts - 1);
  rules.require(i.first_expert + i.num_local_experts <= f.num_experts, "/indices/num_local_experts",
                "is {} from first_expert {} on, past num_experts {}; at most {}", i.num_local_experts, i.first_expert,
                f.num_experts, f.num_experts - i.first_expert);
}

// ---- dtypes and quantization ----

Dtype weight_of(Scheme scheme, Dtype activation) {
  switch (scheme) {
    case Scheme::none: return activation;
    case Scheme::mxfp4:
    case Scheme::nvfp4: return Dtype::float4_e2m1fn;
    case Scheme::int4: return Dtype::int4;
    default: return Dtype::float8_e4m3fn;
  }
}

void check_weight(const Rules& rules) {
  const ConfigFields& f = rules.fields;
  const Scheme scheme = f.quantization.scheme;
  rules.require(scheme != Scheme::none || f.dtypes.activation != Dtype::float32, "/dtypes/activation",
                "is float32 with quantization.scheme none; matmuls take bfloat16 or float16");
  const Dtype weight = weight_of(scheme, f.dtypes.activation);
  rules.require(f.dtypes.weight == weight, "/dtypes/weight",
                "is {} with quantization.scheme {} and activation {}; allowed {}", to_string(f.dtypes.weight),
                to_word(scheme), to_string(f.dtypes.activation), to_string(weight));
}

void check_scales(const Rules& rules) {
  const QuantizationConfig& q = rules.fields.quantization;
  const bool e8m0 = q.scale == Dtype::float8_e8m0fnu;
  const bool mx = q.scheme == Scheme::mxfp8 || q.scheme == Scheme::mxfp4;
  rules.require(!mx || e8m0, "/quantization/scale", "is {} with scheme {}; allowed float8_e8m0fnu", to_string(q.scale),
                to_word(q.scheme));
  rules.require(mx || !e8m0 || q.scheme == Scheme::block128, "/quantization/scale",
                "is float8_e8m0fnu with scheme {}; allowed float32", to_word(q.scheme));
  rules.require(q.scale_layout == ScaleLayout::row || q.scheme == Scheme::block128, "/quantization/scale_layout",
                "is column with scheme {}; only block128 has a column layout, others take row", to_word(q.scheme));
}

// ---- activation and experts ----

void check_gate(const Rules& rules) {
  const ActivationConfig& a = rules.fields.activation;
  rules.require(a.kind != ActivationKind::relu2 || !a.gated, "/activation/gated",
                "is true with kind relu2; allowed false");
  const bool needs_gate = is_one_of(a.kind, {ActivationKind::swiglu_oai, ActivationKind::situ});
  rules.require(!needs_gate || a.gated, "/activation/gated", "is false with kind {}; allowed true", to_word(a.kind));
  rules.require(a.gated || a.gate_layout == GateLayout::halves, "/activation/gate_layout",
                "is interleaved, but gated is false; without a gate only halves, the default");
}

void check_limits(const Rules& rules) {
  const ActivationConfig& a = rules.fields.activation;
  const bool limited = a.limit.has_value() || a.limit_per_expert;
  const std::string_view pointer = a.limit ? "/activation/limit" : "/activation/limit_per_expert";
  rules.require(!limited || is_one_of(a.kind, {ActivationKind::silu, ActivationKind::swiglu_oai}), pointer,
                "is given with kind {}; limits go with silu and swiglu_oai", to_word(a.kind));
  rules.require(!limited || a.gated, pointer, "is given, but gated is false; limits clamp gate and up, so gated true");
  rules.require(!a.limit || !a.limit_per_expert, "/activation/limit",
                "is given beside limit_per_expert; null where the limits come per expert at launch");
}

void check_parameters(const Rules& rules) {
  const ActivationConfig& a = rules.fields.activation;
  rules.require(!a.alpha || a.kind == ActivationKind::swiglu_oai, "/activation/alpha",
                "is given with kind {}; only swiglu_oai has an alpha, others take null", to_word(a.kind));
  const bool situ = a.kind == ActivationKind::situ;
  const auto check_bound = [&](const std::optional<double>& bound, std::string_view pointer) {
    rules.require(!bound || situ, pointer, "is given with kind {}; only situ has it, others take null",
                  to_word(a.kind));
    rules.require(bound || !situ, pointer, "is null with kind situ; a positive number");
  };
  check_bound(a.beta, "/activation/beta");
  check_bound(a.linear_beta, "/activation/linear_beta");
}

void check_experts(const Rules& rules) {
  const ConfigFields& f = rules.fields;
  const Scheme scheme = f.quantization.scheme;
  rules.require(
      f.experts.fuse_quantize != Choice::yes || is_one_of(scheme, {Scheme::rowwise, Scheme::block128, Scheme::mxfp8}),
      "/experts/fuse_quantize", "is true with quantization.scheme {}; true goes with rowwise, block128 and mxfp8",
      to_word(scheme));
  rules.require(!f.experts.weights_on_input || f.finalize.weights_applied, "/finalize/weights_applied",
                "is false beside experts.weights_on_input, so weights would count twice; allowed true");
}

// ---- expert parallel ----

void check_partition(const Rules& rules) {
  const ExpertParallelConfig& p = rules.fields.expert_parallel;
  rules.require(p.partition.size() == static_cast<std::size_t>(p.ranks), "/expert_parallel/partition",
                "has {} entries for {} ranks; one entry a rank", p.partition.size(), p.ranks);
  const std::int64_t sum = std::accumulate(p.partition.begin(), p.partition.end(), std::int64_t{0});
  rules.require(sum == rules.fields.num_experts, "/expert_parallel/partition",
                "sums to {} experts; allowed num_experts = {}", sum, rules.fields.num_experts);
}

// The scheme whose matmul takes rows of `format` as they arrive.
bool format_fits(std::string_view format, Scheme scheme) {
  if (format == "bf16") return true;
  if (format == "opaque") return scheme != Scheme::none;
  if (format == "fp8_block128") return is_one_of(scheme, {Scheme::block128, Scheme::mxfp4});
  if (format == "fp8_rowwise") return scheme == Scheme::rowwise;
  if (format == "mxfp8") return is_one_of(scheme, {Scheme::mxfp8, Scheme::mxfp4});
  return format == to_word(scheme);  // mxfp4, nvfp4
}

std::string formats_for(Scheme scheme) {
  std::string list;
  for (std::string_view format : kFormatWords)
    if (format_fits(format, scheme)) list += (list.empty() ? "" : ", ") + std::string(format);
  return list;
}

void check_format(const Rules& rules) {
  const ConfigFields& f = rules.fields;
  const ExpertParallelConfig& p = f.expert_parallel;
  rules.require(format_fits(p.format, f.quantization.scheme), "/expert_parallel/format",
                "is {} with quantization.scheme {}; allowed {}", p.format, to_word(f.quantization.scheme),
                formats_for(f.quantization.scheme));
  rules.require(p.ranks == 1 || p.format != "bf16" || f.dtypes.activation == Dtype::bfloat16, "/expert_parallel/format",
                "is bf16, but dtypes.activation is {}; the rows of bf16 are bfloat16", to_string(f.dtypes.activation));
}

}  // namespace

void check_rules(const ConfigFields& fields, std::string_view origin) {
  const Rules rules{fields, origin};
  check_counts(rules);
  check_weight(rules);
  check_scales(rules);
  check_widths(rules);
  check_order(rules);
  check_groups(rules);
  check_indices(rules);
  check_gate(rules);
  check_limits(rules);
  check_parameters(rules);
  check_experts(rules);
  check_partition(rules);
  check_format(rules);
}

}  // namespace moegen
