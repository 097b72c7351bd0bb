// SPDX-License-Identifier: Apache-2.0
// Config: what the user asked for. One Config describes one layer shape. docs/config.md explains every field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <moegen/dtype.hpp>

namespace moegen {

/// A named tensor that a user expression may read. `shape` is one of the words that the expression's place allows,
/// e.g. "scalar", "tokens", "experts", "columns", "tokens_columns" (docs/config.md lists them by place).
struct ExpressionInput {
  std::string name;
  Dtype dtype = Dtype::float32;
  std::string shape = "scalar";
};

/// A checked user expression: its text as written and the inputs that it names, sorted by name.
struct ExpressionConfig {
  std::string text;
  std::vector<ExpressionInput> inputs;
};

enum class Scoring { none, softmax, sigmoid, sqrt_softplus };
enum class RouterOrder { score_then_select, select_then_score };
enum class GroupScore { max, top2_sum };
enum class IndexedExperts { active, all };
enum class Accumulate { float32, fast };
enum class Scheme { none, tensor, rowwise, block128, mxfp8, mxfp4, nvfp4, int4 };
enum class ScaleLayout { row, column };
enum class ActivationKind { silu, swiglu_oai, gelu, gelu_tanh, relu2, situ, identity };
enum class GateLayout { halves, interleaved };
enum class Choice { no, yes, automatic };
enum class SharedGate { none, sigmoid };
enum class CombineMode { per_rank, slots };

struct HashRouting {
  std::int64_t vocab = 0;
  Dtype token_id = Dtype::int32;  ///< int32 or int64
};

struct SharedSlots {
  int count = 0;
  double weight = 1.0;
};

struct RouterConfig {
  Dtype logits = Dtype::float32;
  Dtype weights = Dtype::float32;
  Scoring scoring = Scoring::softmax;
  RouterOrder order = RouterOrder::score_then_select;
  std::optional<Dtype> bias;
  int num_groups = 1;
  int top_groups = 1;
  GroupScore group_score = GroupScore::top2_sum;
  bool normalize = true;
  double scale = 1.0;  ///< default of a launch argument; JSON null means 1
  std::optional<HashRouting> hash;
  std::optional<ExpressionConfig> scores;
  std::optional<SharedSlots> shared_slots;
};

struct IndicesConfig {
  Dtype ids = Dtype::int32;  ///< int32, uint32, uint8, uint16, int64
  IndexedExperts experts = IndexedExperts::active;
  int pad_rows_to = 1;  ///< 1, 4, 16, 64, 128
  int expected_count = 8192;
  bool scales_offset = false;
  int first_expert = 0;
  int num_local_experts = 0;  ///< resolved: never 0 after parsing
};

struct DtypesConfig {
  Dtype activation = Dtype::bfloat16;
  Dtype weight = Dtype::bfloat16;
  Dtype output = Dtype::bfloat16;
  Accumulate accumulate = Accumulate::float32;
};

struct QuantizationConfig {
  Scheme scheme = Scheme::none;
  Dtype scale = Dtype::float32;  ///< float32 or float8_e8m0fnu
  ScaleLayout scale_layout = ScaleLayout::row;
  double floor = 1e-10;
};

struct ActivationConfig {
  ActivationKind kind = ActivationKind::silu;
  bool gated = true;
  GateLayout gate_layout = GateLayout::halves;
  std::optional<double> limit, alpha, beta, linear_beta;
  bool limit_per_expert = false;
};

struct ExpertsConfig {
  bool bias = false;
  bool weights_on_input = false;
  Choice gather_a = Choice::automatic;
  Choice fuse_activation = Choice::automatic;
  Choice fuse_quantize = Choice::automatic;
  std::optional<ExpressionConfig> up_epilogue, down_epilogue;
};

struct FinalizeConfig {
  Dtype down = Dtype::bfloat16;
  Dtype output = Dtype::bfloat16;  ///< default: dtypes.output
  bool weights_applied = false;    ///< rows of `down` already carry their router weight
  bool residual = false;           ///< add a row of residual [T, D] (dtypes.activation)
  bool shared = false;             ///< add a row of the shared expert's output [T, D] (finalize.down)
  bool bias = false;               ///< add bias [num_groups, D] (finalize.down) to a row before its weight
  std::optional<ExpressionConfig> epilogue;
};

struct SharedExpertsConfig {
  int count = 0;
  std::int64_t intermediate = 0;
  SharedGate gate = SharedGate::none;
};

struct ExpertParallelConfig {
  int ranks = 1;
  std::vector<int> partition;   ///< experts of each rank; resolved from "even"
  std::string format = "bf16";  ///< bf16, fp8_block128, fp8_rowwise, mxfp8, mxfp4, nvfp4, opaque
  std::int64_t max_tokens_per_rank = 4096;
  std::optional<std::int64_t> capacity;  ///< nothing: "auto"
  CombineMode combine = CombineMode::per_rank;
  Dtype combine_dtype = Dtype::bfloat16;
  double timeout_s = 30;
};

struct TuneConfig {
  std::vector<std::int64_t> num_tokens = {1, 16, 128, 1024, 4096};
  std::vector<std::string> routing = {"uniform", "zipf"};  ///< uniform, zipf, one_hot, or the path of a histogram file
  std::map<std::string, std::vector<std::int64_t>> space;  ///< limits of the tuning space, by parameter name
};

/// Every field after defaults have been filled in. Immutable once inside a Config.
struct ConfigFields {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  int num_experts = 0;
  int top_k = 0;
  std::int64_t expert_hidden = 0;  ///< resolved: hidden unless given
  int num_zero_experts = 0;
  std::int64_t max_tokens = 8192;
  bool deterministic = true;
  RouterConfig router;
  IndicesConfig indices;
  DtypesConfig dtypes;
  QuantizationConfig quantization;
  ActivationConfig activation;
  ExpertsConfig experts;
  FinalizeConfig finalize;
  SharedExpertsConfig shared_experts;
  ExpertParallelConfig expert_parallel;
  TuneConfig tune;

  /// Slots that the router appends to a token for shared experts.
  int num_shared_slots() const noexcept { return router.shared_slots ? router.shared_slots->count : 0; }
  /// Slots of one token: top_k routed ones, then the shared slots of the router.
  int num_slots() const noexcept { return top_k + num_shared_slots(); }
};

/// An immutable, checked config. Cheap to copy; thread-safe.
class Config {
 public:
  /// Reads a JSON file (comments allowed); "-" reads standard input.
  /// Throws: config, as `FILE: /json/pointer: fact; what is allowed[; did you mean 'x'?]`.
  static Config from_file(const std::filesystem::path& path);
  /// Same from text; `origin` stands for the file name in messages.
  static Config from_json(std::string_view text, std::string_view origin = "<memory>");
  /// Checks `fields` exactly as if they had been read from JSON.
  static Config from_fields(const ConfigFields& fields, std::string_view origin = "<memory>");

  const ConfigFields& fields() const noexcept;
  const ConfigFields* operator->() const noexcept { return &fields(); }
  /// File name (as given) or the word passed as `origin`.
  const std::string& origin() const noexcept;
  /// True if the text gave `pointer` ("/router/scale") rather than leaving it to its default.
  bool given(std::string_view pointer) const;
  /// Canonical JSON: every field, defaults included, sorted keys, two-space indent, newline at the end.
  std::string to_json() const;
  /// 64-bit digest of `to_json()`, computed once at parsing: what Engine uses to find a resolved kernel again.
  std::uint64_t digest() const noexcept;

 private:
  struct State;
  explicit Config(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace moegen
