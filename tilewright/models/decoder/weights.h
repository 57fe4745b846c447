// The weights of a Decoder, packed. Private to models/decoder.
#pragma once

#include <vector>

#include "tilewright/models/decoder/decoder.h"
#include "tilewright/models/decoder/linear_weight.h"
#include "tilewright/ops/core/rope_tables.h"

namespace tw::models {

/// A vector of float32, such as a norm's weight; empty when the model has none.
using Vector = std::vector<float>;

/// A linear layer.
struct Projection {
  LinearWeight weight;
  Vector bias;
};

/// Several linear layers of one input, their outputs side by side. Neighbours whose dtype is the
/// same are one.
using Projections = std::vector<Projection>;

struct LayerWeights {
  Vector attention_norm, mlp_norm;
  Vector attention_post_norm, mlp_post_norm;  // Gemma
  Vector q_norm, k_norm;                      // Qwen3, Gemma 3
  Projections qkv;
  Projection attention_out;
  Projections gate_up;
  bool is_gated = false;  // gate_up is one weight from load_gated
  Projection down;
};

struct Decoder::Weights {
  DecoderConfig config;
  LinearWeight embedding;
  LinearWeight head;  // unless tied
  bool is_tied = false;
  Vector final_norm;
  std::vector<LayerWeights> layers;
  std::vector<double> rope_frequencies;
  std::vector<double> rope_local_frequencies;  // of windowed layers, where they differ
  double rope_attention_factor = 1;

  const LinearWeight& head_weight() const { return is_tied ? embedding : head; }
};

}  // namespace tw::models
