#include "tilewright/models/decoder/config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "tilewright/core/printable.h"

namespace tw::models {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;  // any width or count of a real model is far below
constexpr int64_t kMaxContext = int64_t{1} << 31;

/// What an architecture's name says beyond the file's metadata and tensors.
struct Architecture {
  std::string_view name;
  bool interleaved = false;  // rotary pairs are neighbours in the file
  bool gemma = false;
  bool windowed = false;  // always
  bool pre_norms = true, post_norms = false;
  int64_t rope_skip = 0;
};

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .interleaved = true},  // and SmolLM2, Mistral
    {.name = "qwen2"},
    {.name = "qwen3"},
    {.name = "gemma", .gemma = true},
    {.name = "gemma2", .gemma = true, .windowed = true, .post_norms = true},
    {.name = "gemma3", .gemma = true, .windowed = true, .post_norms = true},
    {.name = "phi3"},
    {.name = "granite", .interleaved = true},
    {.name = "olmo2", .pre_norms = false, .post_norms = true},
    {.name = "smollm3", .interleaved = true, .rope_skip = 4},
    {.name = "glm4", .interleaved = true, .post_norms = true},
};

Error unsupported(const GgufFile& file, std::string_view key, const std::string& problem) {
  return {ErrorKind::kUnsupported, file.metadata_error(key, problem).what()};
}

const Architecture& architecture_of(const GgufFile& file) {
  const std::string_view name = file.require_string("general.architecture");
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (a.name == name) return a;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  throw unsupported(file, "general.architecture",
                    "'" + printable(name, 60) + "' is not supported; known are " + known);
}

/// Keys that describe the file or what is not computed here.
constexpr std::string_view kDescriptions[] = {
    "vocab_size",   "tensor_data_layout", "attention.layer_norm_epsilon",
    "pooling_type", "expert_used_count",  "rope.scaling.finetuned",
};
/// Factors and flags whose 1 changes nothing.
constexpr std::string_view kNeutralAtOne[] = {
    "attention.causal",
    "attention.output_scale",
    "attention.value_scale",
    "embedding_scale",
    "logit_scale",
    "residual_scale",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "num_loops",
};

/// Whether a model with this value is the same as one without the key: zeros, empty texts, ones of
/// factors.
bool asks_nothing(std::string_view suffix, const GgufValue& value) {
  const auto lists = [suffix](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), suffix) != names.end();
  };
  if (lists(kDescriptions)) return true;
  if (value.element_type() == GgufType::kString) {
    for (const std::string_view text : value.strings())
      if (!text.empty()) return false;
    return true;
  }
  if (value.element_type() == GgufType::kArray) return false;
  const bool floats = is_float(value.element_type());
  const double neutral = lists(kNeutralAtOne) ? 1 : 0;
  for (int64_t i = 0; i < value.size(); ++i) {
    const double number = floats ? value.as_float(i) : double(value.as_int(i));
    if (number != 0 && number != neutral) return false;
  }
  return true;
}

/// Metadata under the architecture's prefix, with range checks.
class Reader {
 public:
  Reader(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  /// A key that the caller honours, whatever its value.
  std::string key(const char* suffix) const {
    honoured_.insert(suffix);
    return architecture_ + "." + suffix;
  }

  int64_t size(const char* suffix, int64_t most = kMaxSize) const {
    return in_range(suffix, file_.require_int(key(suffix)), most);
  }
  int64_t size_or(const char* suffix, int64_t fallback, int64_t most = kMaxSize) const {
    const auto value = file_.find_int(key(suffix));
    return value ? in_range(suffix, *value, most) : fallback;
  }
  float positive(const char* suffix) const {
    return check_positive(suffix, file_.require_f32(key(suffix)));
  }
  float positive_or(const char* suffix, float fallback) const {
    const auto value = file_.find_f32(key(suffix));
    return value ? check_positive(suffix, *value) : fallback;
  }
  /// Zero counts as absent.
  float positive_or_none(const char* suffix) const {
    const auto value = file_.find_f32(key(suffix));
    return value && *value != 0 ? check_positive(suffix, *value) : 0;
  }
  Error error(const char* suffix, const std::string& problem) const {
    return file_.metadata_error(key(suffix), problem);
  }

  /// Throws for the first key of the architecture that nobody asked for and that asks for anything:
  /// a model that ran without it would be another model.
  void refuse_the_rest() const {
    for (const GgufEntry& entry : file_.metadata()) {
      if (!entry.key.starts_with(architecture_ + ".")) continue;
      const std::string_view suffix = entry.key.substr(architecture_.size() + 1);
      if (honoured_.contains(suffix) || asks_nothing(suffix, entry.value)) continue;
      throw Error(ErrorKind::kUnsupported, printable(file_.name()) + ": metadata '" +
                                               printable(entry.key) +
                                               "': models of architecture '" + architecture_ +
                                               "' that need this are not supported (at byte " +
                                               std::to_string(entry.offset) + ")");
    }
  }

 private:
  int64_t in_range(const char* suffix, int64_t value, int64_t most) const {
    if (value < 1 || value > most)
      throw error(suffix, std::to_string(value) + " is not in 1.." + std::to_string(most));
    return value;
  }
  float check_positive(const char* suffix, float value) const {
    if (!(value > 0) || !std::isfinite(value))
      throw error(suffix, std::to_string(value) + " is not a positive number");
    return value;
  }

  const GgufFile& file_;
  std::string architecture_;
  mutable std::set<std::string, std::less<>> honoured_;
};

void read_sizes(const GgufFile& file, const Reader& read, DecoderConfig& c) {
  c.layers = read.size("block_count", 4096);
  c.hidden = read.size("embedding_length");
  c.intermediate = read.size("feed_forward_length");
  c.heads = read.size("attention.head_count", 65536);
  c.kv_heads = read.size_or("attention.head_count_kv", c.heads, 65536);
  c.context_length = read.size("context_length", kMaxContext);
  if (c.heads % c.kv_heads != 0)
    throw read.error(
        "attention.head_count_kv",
        std::to_string(c.kv_heads) + " does not divide the head count " + std::to_string(c.heads));
  if (!file.find(read.key("attention.key_length")) && c.hidden % c.heads != 0)
    throw read.error("attention.head_count",
                     std::to_string(c.heads) + " does not divide the embedding length " +
                         std::to_string(c.hidden) + ", and attention.key_length is missing");
  c.head_dim = read.size_or("attention.key_length", c.hidden / c.heads, 4096);
  const int64_t value_dim = read.size_or("attention.value_length", c.head_dim, 4096);
  if (value_dim != c.head_dim)
    throw unsupported(file, read.key("attention.value_length"),
                      std::to_string(value_dim) + " is not the keys' " +
                          std::to_string(c.head_dim) + "; only equal ones are supported");
  const GgufTensor embedding = file.require_tensor("token_embd.weight");
  if (embedding.rank != 2 || embedding.shape()[1] != c.hidden)
    throw file.tensor_error("token_embd.weight",
                            "its rows are not of the embedding length " + std::to_string(c.hidden));
  c.vocabulary = embedding.shape()[0];
}

void read_rope(const GgufFile& file, const Reader& read, DecoderConfig& c) {
  c.rope_dim = read.size_or("rope.dimension_count", c.head_dim, 4096);
  if (c.rope_dim > c.head_dim || c.rope_dim % 2 != 0)
    throw read.error("rope.dimension_count", std::to_string(c.rope_dim) +
                                                 " is not an even number up to the head size " +
                                                 std::to_string(c.head_dim));
  c.rope_base = read.positive_or("rope.freq_base", 10000);
  // Files without a type mean the linear one; rope.scale_linear is an older name of the factor.
  const auto type = file.find_string(read.key("rope.scaling.type"));
  const char* const kFactor =
      file.find(read.key("rope.scaling.factor")) ? "rope.scaling.factor" : "rope.scale_linear";
  read.key("rope.scaling.original_context_length");
  const float factor = read.positive_or_none(kFactor);
  const auto scaling = !type && factor > 0 ? std::optional<std::string_view>("linear") : type;
  if (scaling && *scaling == "linear")
    c.rope_scaling = RopeScaling::kLinear;
  else if (scaling && *scaling == "yarn")
    c.rope_scaling = RopeScaling::kYarn;
  else if (scaling && *scaling != "none")
    throw unsupported(file, read.key("rope.scaling.type"),
                      "'" + printable(*scaling, 60) + "'; known are none, linear and yarn");
  if (c.rope_scaling != RopeScaling::kNone) {
    c.rope_factor = read.positive(kFactor);
    c.rope_original_context =
        read.size_or("rope.scaling.original_context_length", c.context_length, kMaxContext);
    c.rope_attention_factor = read.positive_or("rope.scaling.attn_factor", 1);
    c.rope_beta_fast = read.positive_or("rope.scaling.yarn_beta_fast", 32);
    c.rope_beta_slow = read.positive_or("rope.scaling.yarn_beta_slow", 1);
  }
  if (const auto factors = file.find_tensor("rope_freqs.weight")) {
    if (factors->dtype != DType::kF32 || factors->elements != c.rope_dim / 2)
      throw file.tensor_error("rope_freqs.weight", "it must hold one f32 per rotated pair");
    const auto* values = reinterpret_cast<const float*>(factors->data);
    c.rope_frequency_factors.assign(values, values + factors->elements);
    for (float f : c.rope_frequency_factors)
      if (!(f > 0) || !std::isfinite(f))
        throw file.tensor_error("rope_freqs.weight", "a factor is not a positive number");
  }
}

/// Gemma 2 27B and Gemma 3 27B scale queries by the width per head instead of the head size.
float implied_attention_scale(const DecoderConfig& c) {
  const bool is_27b = (c.architecture == "gemma2" && c.layers == 46) ||
                      (c.architecture == "gemma3" && c.layers == 62);
  return 1 / std::sqrt(static_cast<float>(is_27b ? c.hidden / c.heads : c.head_dim));
}

/// A pattern of n leaves every n-th layer without a window. Gemma's files only imply theirs.
int64_t implied_window_pattern(const DecoderConfig& c) {
  if (c.architecture == "gemma2") return 2;
  if (c.architecture == "gemma3") return 6;
  if (c.architecture == "olmo2") return 4;  // OLMo 3
  return 0;                                 // every layer has a window: Mistral 7B 0.1
}

void read_window(const GgufFile& file, const Reader& read, bool always, DecoderConfig& c) {
  c.windowed_layers.assign(size_t(c.layers), false);
  const char* const kWindow = "attention.sliding_window";
  if (file.find_int(read.key(kWindow)).value_or(0) == 0 && !always) return;
  // The first files of Gemma 2 were written without.
  c.window = c.architecture == "gemma2" ? read.size_or(kWindow, 4096, kMaxContext)
                                        : read.size(kWindow, kMaxContext);
  const char* const kPattern = "attention.sliding_window_pattern";
  const std::optional<GgufEntry> entry = file.find(read.key(kPattern));
  if (!entry || !entry->value.is_array()) {
    const int64_t n = entry ? read.size(kPattern, 4096) : implied_window_pattern(c);
    for (int64_t l = 0; l < c.layers; ++l)
      c.windowed_layers[size_t(l)] = n == 0 || (l + 1) % n != 0;
    return;
  }
  const auto flags = file.require_ints(read.key(kPattern));
  if (flags.size() != c.layers)
    throw read.error(kPattern, "it has " + std::to_string(flags.size()) + " elements for " +
                                   std::to_string(c.layers) + " layers");
  for (int64_t l = 0; l < c.layers; ++l) c.windowed_layers[size_t(l)] = flags[l] != 0;
}

void read_gemma(const Reader& read, DecoderConfig& c) {
  c.activation = GatedActivation::kGeluTanh;
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));
  if (c.architecture == "gemma2") {
    c.attention_softcap = read.positive_or("attn_logit_softcapping", 50);
    c.logit_softcap = read.positive_or("final_logit_softcapping", 30);
  }
  if (c.architecture == "gemma3") {
    c.rope_local_base = read.positive_or("rope.freq_base_swa", 10000);
    c.logit_softcap = read.positive_or_none("final_logit_softcapping");
  }
}

void read_granite(const GgufFile& file, const Reader& read, DecoderConfig& c) {
  c.embedding_scale = read.positive_or("embedding_scale", 1);
  c.residual_scale = read.positive_or("residual_scale", 1);
  c.logit_scale = 1 / read.positive_or("logit_scale", 1);
  // Granite's files have this key as the switch of the rotation.
  if (!file.find_bool(read.key("rope.scaling.finetuned")).value_or(true)) c.rope_skip = 1;
}

}  // namespace

DecoderConfig DecoderConfig::from_gguf(const GgufFile& file) {
  const Architecture& architecture = architecture_of(file);
  DecoderConfig c;
  c.architecture = std::string(architecture.name);
  const Reader read(file, c.architecture);
  if (file.find_int(read.key("expert_count")).value_or(0) != 0)
    throw unsupported(file, read.key("expert_count"), "mixtures of experts are not supported");
  read_sizes(file, read, c);
  c.norm_eps = read.positive("attention.layer_norm_rms_epsilon");
  c.attention_scale = read.positive_or("attention.scale", implied_attention_scale(c));
  c.rope_interleaved = architecture.interleaved;
  c.rope_skip = architecture.rope_skip;
  read_rope(file, read, c);
  read_window(file, read, architecture.windowed, c);
  c.qk_norm = file.find_tensor("blk.0.attn_q_norm.weight").has_value();
  c.qk_norm_wide = c.architecture == "olmo2";
  c.pre_norms = architecture.pre_norms;
  c.post_norms = architecture.post_norms;
  if (architecture.gemma) read_gemma(read, c);
  if (c.architecture == "granite") read_granite(file, read, c);
  // OLMo 3 scales the rotation of layers without a window only.
  if (c.architecture == "olmo2")
    c.rope_local_base = read.positive_or("rope.freq_base_swa", c.rope_base);
  read.refuse_the_rest();
  return c;
}

}  // namespace tw::models
