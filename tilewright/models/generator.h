// Text generation: prompt in, tokens out, with the cache kept between prompts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tilewright/models/decoder/decoder.h"

namespace tw::models {

/// How the next token is drawn (ops/sample.h). The defaults are greedy.
struct Sampling {
  float temperature = 0;  // 0: the most likely token
  int64_t top_k = 0;      // 0: all
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  int64_t penalty_tokens = 64;  // how far back the penalties look; negative: everything
  int64_t seed = 0;
};

struct GenerateOptions {
  int64_t max_tokens = 256;
  bool exact = false;           // float32 activations and exact weights in linear layers
  int64_t prefill_chunk = 512;  // tokens
  Sampling sampling;
  std::vector<int32_t> stop_tokens;
  int64_t vocabulary = 0;  // ids below this are drawn: those that have a text; 0: all
  std::function<void(double)> on_prompt;  // sees how much of a prompt has been read, up to 1
};

struct GenerateResult {
  std::vector<int32_t> tokens;  // without the stop token
  bool stopped = false;         // by a stop token; otherwise by the limit or the callback
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // of the prompt, found in the cache
  double prefill_seconds = 0, decode_seconds = 0;
};

class TW_API Generator {
 public:
  Generator(const Decoder& decoder, runtime::Context& context);

  /// Continues `prompt`. on_token sees each token as it is drawn; returning false ends the text.
  /// The longest common prefix of prompt and cached tokens is not computed again. Throws
  /// kInvalidArgument for an empty prompt, one beyond the model's context, or sampling parameters
  /// outside their ranges.
  GenerateResult run(std::span<const int32_t> prompt, const GenerateOptions& options,
                     const std::function<bool(int32_t)>& on_token = {});

  /// Tokens whose keys and values are held for the next prompt.
  std::span<const int32_t> cached_tokens() const { return cached_; }

 private:
  int32_t sample(const std::vector<int32_t>& text, const GenerateOptions& options, int64_t draw);

  const Decoder* decoder_;
  runtime::Context* context_;
  KvCache cache_;
  std::vector<int32_t> cached_;
  std::vector<float> logits_;
};

}  // namespace tw::models
