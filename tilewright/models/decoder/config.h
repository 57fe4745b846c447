// The decoder-only transformer family as one description. Llama, SmolLM, Mistral, Qwen2, Qwen3,
// Gemma, Phi-3, Granite, OLMo 2 and GLM-4 are settings of it, read from GGUF metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/core/macros.h"
#include "tilewright/models/gguf.h"

namespace tw::models {

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };
enum class GatedActivation : uint8_t { kSilu, kGeluTanh };

struct DecoderConfig {
  std::string architecture;
  int64_t layers = 0;
  int64_t hidden = 0;        // model width
  int64_t intermediate = 0;  // feed-forward width
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;  // of queries, keys and values
  int64_t vocabulary = 0;
  int64_t context_length = 0;  // trained positions

  float norm_eps = 1e-5f;
  GatedActivation activation = GatedActivation::kSilu;
  float embedding_scale = 1;    // Gemma: sqrt(hidden)
  float attention_scale = 0;    // of q k^T
  float attention_softcap = 0;  // 0: none
  float logit_softcap = 0;      // 0: none
  float residual_scale = 1;     // Granite: of what a branch adds
  float logit_scale = 1;        // Granite: the file has its inverse

  // Rotary embedding. In GGUF, Llama's q and k are permuted for the interleaved form.
  bool rope_interleaved = false;
  int64_t rope_dim = 0;  // leading dimensions of a head that turn
  float rope_base = 10000;
  float rope_local_base = 0;  // of windowed layers; 0: as rope_base (Gemma 3: 10000)
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_factor = 1;
  int64_t rope_original_context = 0;
  float rope_attention_factor = 1;                // on top of YaRN's own scale of cos and sin
  float rope_beta_fast = 32, rope_beta_slow = 1;  // YaRN: turns within the original context
  std::vector<float> rope_frequency_factors;      // Llama 3.1: divisors per frequency; empty: none

  int64_t window = 0;                 // keys a windowed layer sees, itself included
  std::vector<bool> windowed_layers;  // [layers]

  int64_t rope_skip = 0;  // every so many layers one without rotation (SmolLM3: 4); 0: none

  bool qk_norm = false;       // RMS norm of each query and key head (Qwen3, Gemma 3)
  bool qk_norm_wide = false;  // of all heads together instead (OLMo 2)
  bool pre_norms = true;      // norms before attention and feed-forward
  bool post_norms = false;    // norms after them (Gemma 2 and 3, OLMo 2, GLM-4)

  bool is_windowed(int64_t layer) const { return windowed_layers[size_t(layer)]; }
  bool is_rotated(int64_t layer) const { return rope_skip == 0 || (layer + 1) % rope_skip != 0; }

  /// Reads the description and checks that its numbers make sense together and agree with the
  /// tensors' shapes. Throws kUnsupported for an architecture outside the family, kBadFile for
  /// metadata that is missing, out of range or contradictory.
  static TW_API DecoderConfig from_gguf(const GgufFile& file);
};

}  // namespace tw::models
