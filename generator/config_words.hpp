// SPDX-License-Identifier: Apache-2.0
// The words of a config's enumerations, in the order in which messages and docs list them.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include <moegen/config.hpp>

namespace moegen {

/// One word of an enumeration.
template <class Enum>
struct Word {
  std::string_view text;
  Enum value;
};

inline constexpr std::array<Word<Scoring>, 4> kScoringWords = {{{"none", Scoring::none},
                                                                {"softmax", Scoring::softmax},
                                                                {"sigmoid", Scoring::sigmoid},
                                                                {"sqrt_softplus", Scoring::sqrt_softplus}}};
inline constexpr std::array<Word<RouterOrder>, 2> kRouterOrderWords = {
    {{"score_then_select", RouterOrder::score_then_select}, {"select_then_score", RouterOrder::select_then_score}}};
inline constexpr std::array<Word<GroupScore>, 2> kGroupScoreWords = {
    {{"max", GroupScore::max}, {"top2_sum", GroupScore::top2_sum}}};
inline constexpr std::array<Word<IndexedExperts>, 2> kIndexedExpertsWords = {
    {{"active", IndexedExperts::active}, {"all", IndexedExperts::all}}};
inline constexpr std::array<Word<Accumulate>, 2> kAccumulateWords = {
    {{"float32", Accumulate::float32}, {"fast", Accumulate::fast}}};
inline constexpr std::array<Word<Scheme>, 8> kSchemeWords = {{{"none", Scheme::none},
                                                              {"tensor", Scheme::tensor},
                                                              {"rowwise", Scheme::rowwise},
                                                              {"block128", Scheme::block128},
                                                              {"mxfp8", Scheme::mxfp8},
                                                              {"mxfp4", Scheme::mxfp4},
                                                              {"nvfp4", Scheme::nvfp4},
                                                              {"int4", Scheme::int4}}};
inline constexpr std::array<Word<ScaleLayout>, 2> kScaleLayoutWords = {
    {{"row", ScaleLayout::row}, {"column", ScaleLayout::column}}};
inline constexpr std::array<Word<ActivationKind>, 7> kActivationKindWords = {
    {{"silu", ActivationKind::silu},
     {"swiglu_oai", ActivationKind::swiglu_oai},
     {"gelu", ActivationKind::gelu},
     {"gelu_tanh", ActivationKind::gelu_tanh},
     {"relu2", ActivationKind::relu2},
     {"situ", ActivationKind::situ},
     {"identity", ActivationKind::identity}}};
inline constexpr std::array<Word<GateLayout>, 2> kGateLayoutWords = {
    {{"halves", GateLayout::halves}, {"interleaved", GateLayout::interleaved}}};
inline constexpr std::array<Word<SharedGate>, 2> kSharedGateWords = {
    {{"none", SharedGate::none}, {"sigmoid", SharedGate::sigmoid}}};
inline constexpr std::array<Word<CombineMode>, 2> kCombineModeWords = {
    {{"per_rank", CombineMode::per_rank}, {"slots", CombineMode::slots}}};

inline constexpr std::array<std::string_view, 7> kFormatWords = {"bf16",  "fp8_block128", "fp8_rowwise", "mxfp8",
                                                                 "mxfp4", "nvfp4",        "opaque"};
inline constexpr std::array<std::string_view, 3> kRoutingWords = {"uniform", "zipf", "one_hot"};

/// The word of `value` in `words`, or "" for a value that is none of them.
template <class Enum>
constexpr std::string_view word_of(Enum value, std::span<const Word<Enum>> words) noexcept {
  for (const Word<Enum>& word : words)
    if (word.value == value) return word.text;
  return {};
}

/// The texts of `words`, in their order.
template <class Enum, std::size_t kCount>
std::vector<std::string_view> texts_of(const std::array<Word<Enum>, kCount>& words) {
  std::vector<std::string_view> texts;
  for (const Word<Enum>& word : words) texts.push_back(word.text);
  return texts;
}

/// torch's names of `dtypes`, in their order.
inline std::vector<std::string_view> texts_of(std::span<const Dtype> dtypes) {
  std::vector<std::string_view> texts;
  for (Dtype dtype : dtypes) texts.push_back(to_string(dtype));
  return texts;
}

inline std::string_view to_word(Scheme scheme) noexcept { return word_of<Scheme>(scheme, kSchemeWords); }
inline std::string_view to_word(Scoring scoring) noexcept { return word_of<Scoring>(scoring, kScoringWords); }
inline std::string_view to_word(ActivationKind kind) noexcept {
  return word_of<ActivationKind>(kind, kActivationKindWords);
}

}  // namespace moegen
