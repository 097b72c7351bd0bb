// SPDX-License-Identifier: Apache-2.0
// The field table: every field of a config once, with its place, its allowed values and its description. The reader,
// the writer and the docs are three visitors of it, so none of them can know a field that the others do not.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include <moegen/config.hpp>

#include "config_allowed.hpp"
#include "config_words.hpp"

namespace moegen {

/// The format that this version reads: the value of the field `moegen`.
inline constexpr int kConfigFormat = 1;
/// Limits that more than one rule needs.
inline constexpr int kMaxExperts = 2048;
inline constexpr int kMaxTopK = 32;

inline constexpr std::array kFloatDtypes = {Dtype::float32, Dtype::bfloat16, Dtype::float16};
inline constexpr std::array kIdDtypes = {Dtype::int32, Dtype::uint32, Dtype::uint8, Dtype::uint16, Dtype::int64};
inline constexpr std::array kTokenIdDtypes = {Dtype::int32, Dtype::int64};
inline constexpr std::array kWeightDtypes = {Dtype::bfloat16, Dtype::float16, Dtype::float8_e4m3fn,
                                             Dtype::float4_e2m1fn, Dtype::int4};
inline constexpr std::array kScaleDtypes = {Dtype::float32, Dtype::float8_e8m0fnu};
inline constexpr std::array kCombineDtypes = {Dtype::bfloat16, Dtype::float32};

inline constexpr Range kWidthRange{1, std::int64_t{1} << 20};
inline constexpr Range kTokenRange{1, std::int64_t{1} << 30};
inline constexpr std::array<std::int64_t, 5> kPadRows = {1, 4, 16, 64, 128};

// In every function below `V` is a visitor (ConfigReader, ConfigWriter, ConfigDescriber) and `S` the struct that a
// section fills, const for the writer.

template <class V, class S>
void visit_router(V& v, S& router) {
  v.dtype({"logits", "dtype of the logits"}, router.logits, kFloatDtypes);
  v.dtype({"weights", "dtype of the expert weights that the router writes and finalize reads"}, router.weights,
          kFloatDtypes);
  v.word({"scoring", "what turns a logit into a score; `none` takes the logit itself", {}, true}, router.scoring,
         kScoringWords);
  v.word({"order",
          "`score_then_select` scores all experts and keeps the best k; `select_then_score` keeps the best k "
          "logits and scores those (softmax and sigmoid only)"},
         router.order, kRouterOrderWords);
  v.optional_dtype({"bias", "dtype of a bias per expert that enters the choice and never the weights; null: no bias"},
                   router.bias, kFloatDtypes);
  v.integer({"num_groups", "groups of experts; divides num_experts"}, router.num_groups, Range{1, kMaxExperts});
  v.integer({"top_groups",
             "groups that a token may choose from; top_groups * num_experts / num_groups is at least "
             "top_k"},
            router.top_groups, Range{1, kMaxExperts});
  v.word({"group_score", "a group's score: its best biased score, or the sum of its two best"}, router.group_score,
         kGroupScoreWords);
  v.boolean({"normalize", "divide the k weights by their sum"}, router.normalize);
  v.number({"scale", "factor on the weights after normalisation: the default of a launch argument; null is 1"},
           router.scale, kAnyFloat, /*null_is_default=*/true);
  v.optional_section(
      {"hash", "take the expert ids from a table [vocab, top_k] int32 by token id; null: route by score"}, router.hash,
      [&v](auto& hash) {
        v.integer({"vocab", "rows of the table", {}, true}, hash.vocab,
                  Range{1, std::numeric_limits<std::int32_t>::max()});
        v.dtype({"token_id", "dtype of the token ids"}, hash.token_id, kTokenIdDtypes);
      });
  v.expression({"scores", "an expression instead of `scoring`"}, {"inputs", "named inputs of `scores`"}, router.scores);
  v.optional_section({"shared_slots",
                      "slots for fused shared experts, appended after renormalisation with ids from "
                      "num_experts + num_zero_experts on; null: none"},
                     router.shared_slots, [&v](auto& slots) {
                       v.integer({"count", "slots appended to a token's top_k", {}, true}, slots.count,
                                 Range{1, kMaxTopK - 1});
                       v.number({"weight", "weight of each"}, slots.weight, kAnyFloat);
                     });
}

template <class V, class S>
void visit_indices(V& v, S& indices) {
  v.dtype({"ids", "dtype of the expert ids; holds every id below num_experts + num_zero_experts + shared slots"},
          indices.ids, kIdDtypes);
  v.word({"experts", "`active` lists the experts that have tokens, `all` gives every expert a slot"}, indices.experts,
         kIndexedExpertsWords);
  v.choice_of({"pad_rows_to", "every expert's first row is a multiple of this"}, indices.pad_rows_to, kPadRows);
  v.integer({"expected_count", "pairs per expert that a plan may cache in shared memory; more spill, correctly"},
            indices.expected_count, Range{4, 1 << 20, 4});
  v.boolean({"scales_offset", "also write the offset of each expert's 128-row scale tiles"}, indices.scales_offset);
  v.integer({"first_expert", "first expert of the local range"}, indices.first_expert, Range{0, kMaxExperts - 1});
  v.integer({"num_local_experts", "experts of the local range; pairs of others are dropped", "num_experts"},
            indices.num_local_experts, Range{1, kMaxExperts});
}

template <class V, class S>
void visit_dtypes(V& v, S& dtypes) {
  v.dtype({"activation", "dtype of the tokens and of rows between kernels that are not quantised"}, dtypes.activation,
          kFloatDtypes);
  v.dtype({"weight", "dtype of the expert weights; quantization.scheme says which"}, dtypes.weight, kWeightDtypes);
  v.dtype({"output", "dtype of the layer's output"}, dtypes.output, kFloatDtypes);
  v.word({"accumulate", "`float32` promotes partial sums every 128 of K, `fast` leaves them to the tensor core"},
         dtypes.accumulate, kAccumulateWords);
}

template <class V, class S>
void visit_quantization(V& v, S& quantization) {
  v.word({"scheme", "how weights and activations are scaled"}, quantization.scheme, kSchemeWords);
  v.dtype({"scale", "dtype of the scales; under nvfp4 that of the global scale",
           "float32; float8_e8m0fnu where scheme is mxfp8 or mxfp4"},
          quantization.scale, kScaleDtypes);
  v.word({"scale_layout", "`column` stores activation scales transposed, rows padded to 16 bytes (block128 only)"},
         quantization.scale_layout, kScaleLayoutWords);
  v.number({"floor", "least absolute maximum of a group, so that a group of zeros has a finite scale"},
           quantization.floor, Interval{1e-30, 1});
}

template <class V, class S>
void visit_activation(V& v, S& activation) {
  v.word({"kind", "the function between the two matmuls"}, activation.kind, kActivationKindWords);
  v.boolean({"gated", "the up projection is 2 * intermediate wide: gate and up", "true; false where kind is relu2"},
            activation.gated);
  v.word({"gate_layout", "gate and up as two halves, gate first, or interleaved"}, activation.gate_layout,
         kGateLayoutWords);
  v.optional_number({"limit", "clamp of gate (from above) and up (both sides), before the function; null: none",
                     "null; 7 where kind is swiglu_oai and limit_per_expert is false"},
                    activation.limit, kPositiveFloat);
  v.optional_number({"alpha", "factor inside the sigmoid of swiglu_oai", "null; 1.702 where kind is swiglu_oai"},
                    activation.alpha, kPositiveFloat);
  v.optional_number({"beta", "bound of the gate's tanh; situ needs it"}, activation.beta, kPositiveFloat);
  v.optional_number({"linear_beta", "bound of up's tanh; situ needs it"}, activation.linear_beta, kPositiveFloat);
  v.boolean({"limit_per_expert", "the limits are a launch argument, one per local expert"},
            activation.limit_per_expert);
}

template <class V, class S>
void visit_experts(V& v, S& experts) {
  v.boolean({"bias", "both projections have a bias per expert"}, experts.bias);
  v.boolean({"weights_on_input", "multiply a token by its router weight before the up projection"},
            experts.weights_on_input);
  v.choice({"gather_a", "the up projection reads token rows through the order instead of permuted ones"},
           experts.gather_a);
  v.choice({"fuse_activation", "the activation runs in the epilogue of the up projection"}, experts.fuse_activation);
  v.choice({"fuse_quantize", "rows are quantised where they are produced"}, experts.fuse_quantize);
  v.expression({"up_epilogue", "an expression on the float32 value of the up projection before it is stored"},
               {"up_inputs", "named inputs of `up_epilogue`"}, experts.up_epilogue);
  v.expression({"down_epilogue", "an expression on the float32 value of the down projection before it is stored"},
               {"down_inputs", "named inputs of `down_epilogue`"}, experts.down_epilogue);
}

template <class V, class S>
void visit_finalize(V& v, S& finalize) {
  v.dtype({"down", "dtype of the rows of the down projection"}, finalize.down, kFloatDtypes);
  v.dtype({"output", "dtype of the finalized rows", "dtypes.output"}, finalize.output, kFloatDtypes);
  v.boolean({"weights_applied", "the rows already carry their router weight", "experts.weights_on_input"},
            finalize.weights_applied);
  v.boolean({"residual", "add a row of a residual [T, expert_hidden], dtype dtypes.activation"}, finalize.residual);
  v.boolean({"shared", "add a row of the shared expert's output [T, expert_hidden], dtype finalize.down"},
            finalize.shared);
  v.boolean({"bias", "add a bias [num_groups, expert_hidden], dtype finalize.down, to a row before its weight"},
            finalize.bias);
  v.expression({"epilogue", "an expression on the float32 sum before it is stored"},
               {"inputs", "named inputs of `epilogue`"}, finalize.epilogue);
}

template <class V, class S>
void visit_shared_experts(V& v, S& shared) {
  v.integer({"count", "shared experts", {}, true}, shared.count, Range{1, 64});
  v.integer({"intermediate", "intermediate width of one of them, elements", "intermediate"}, shared.intermediate,
            kWidthRange);
  v.word({"gate", "`sigmoid` scales their output by the sigmoid of a logit per token"}, shared.gate, kSharedGateWords);
}

template <class V, class S>
void visit_expert_parallel(V& v, S& parallel) {
  v.integer({"ranks", "ranks that share the experts"}, parallel.ranks, Range{1, 1024});
  v.partition({"partition",
               "experts of each rank, summing to num_experts; \"even\" gives the first ranks one more "
               "where it does not divide",
               "\"even\""},
              parallel.partition, Range{0, kMaxExperts});
  v.text_of({"format", "what a token looks like on the wire; matches quantization.scheme"}, parallel.format,
            kFormatWords);
  v.integer({"max_tokens_per_rank", "most tokens that a rank dispatches at once"}, parallel.max_tokens_per_rank,
            kTokenRange);
  v.integer_or_auto({"capacity",
                     "most rows that a rank receives; more is a reported status, never a write past it; "
                     "\"auto\" takes the worst case"},
                    parallel.capacity, Range{1, std::int64_t{1} << 40});
  v.word({"combine", "`per_rank` sums on the expert's rank first, `slots` sends a row per pair and sums in slot order"},
         parallel.combine, kCombineModeWords);
  v.dtype({"combine_dtype", "dtype of the rows sent back"}, parallel.combine_dtype, kCombineDtypes);
  v.number({"timeout_s", "seconds after which a wait for another rank ends with a report"}, parallel.timeout_s,
           Interval{0.001, 86400});
}

template <class V, class S>
void visit_tune(V& v, S& tune) {
  v.integers({"num_tokens", "token counts to tune for"}, tune.num_tokens, kTokenRange);
  v.routings({"routing",
              "how the tokens choose experts: uniform, zipf, one_hot, or the path of a histogram file (it "
              "has a '/' or a '.')"},
             tune.routing);
  v.space({"space", "limits of the tuning space: the values to try, by the name of the parameter"}, tune.space);
}

/// Visits every field of a config in the order in which docs and messages list them.
template <class V, class S>
void visit_config(V& v, S& fields) {
  v.format({"moegen", "version of the config format", {}, true}, kConfigFormat);
  v.name({"name", "name of the layer shape: letters, digits, '.', '_' and '-', at most 128", {}, true}, fields.name);
  v.integer({"hidden", "width of a token, elements; a multiple of 16 bytes", {}, true}, fields.hidden, kWidthRange);
  v.integer({"intermediate", "intermediate width of one expert, elements; a multiple of 16 bytes", {}, true},
            fields.intermediate, kWidthRange);
  v.integer({"num_experts", "routed experts", {}, true}, fields.num_experts, Range{1, kMaxExperts});
  v.integer({"top_k", "experts of a token; at most num_experts", {}, true}, fields.top_k, Range{1, kMaxTopK});
  v.integer({"expert_hidden", "width of a token inside the experts (latent width), elements; a multiple of 16 bytes",
             "hidden"},
            fields.expert_hidden, kWidthRange);
  v.integer({"num_zero_experts", "experts that return their input, with ids from num_experts on"},
            fields.num_zero_experts, Range{0, kMaxExperts - 1});
  v.integer({"max_tokens", "most tokens of one call"}, fields.max_tokens, kTokenRange);
  v.boolean({"deterministic", "same input, same bits, alone or inside any batch"}, fields.deterministic);
  v.section({"router", "the choice of experts"}, fields.router, [&v](auto& s) { visit_router(v, s); });
  v.section({"indices", "the order of pairs by expert"}, fields.indices, [&v](auto& s) { visit_indices(v, s); });
  v.section({"dtypes", "element types, by their torch names"}, fields.dtypes, [&v](auto& s) { visit_dtypes(v, s); });
  v.section({"quantization", "scaled weights and activations"}, fields.quantization,
            [&v](auto& s) { visit_quantization(v, s); });
  v.section({"activation", "the function between the two matmuls"}, fields.activation,
            [&v](auto& s) { visit_activation(v, s); });
  v.section({"experts", "the two matmuls of an expert"}, fields.experts, [&v](auto& s) { visit_experts(v, s); });
  v.section({"finalize", "the weighted sum of a token's rows"}, fields.finalize,
            [&v](auto& s) { visit_finalize(v, s); });
  v.counted_section({"shared_experts", "experts that every token visits; null: none"}, fields.shared_experts,
                    [&v](auto& s) { visit_shared_experts(v, s); });
  v.section({"expert_parallel", "experts spread over several GPUs"}, fields.expert_parallel,
            [&v](auto& s) { visit_expert_parallel(v, s); });
  v.section({"tune", "what `moegen tune` measures"}, fields.tune, [&v](auto& s) { visit_tune(v, s); });
}

}  // namespace moegen
