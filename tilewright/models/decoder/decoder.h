// A decoder-only language model on tilewright's operators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilewright/models/decoder/config.h"
#include "tilewright/models/decoder/kv_cache.h"
#include "tilewright/models/gguf.h"
#include "tilewright/runtime/context.h"

namespace tw::models {

/// New tokens of one sequence, to run after what its cache holds.
struct SequenceTokens {
  KvCache* cache;
  std::span<const int32_t> tokens;
};

/// Which positions get logits.
enum class LogitRows : uint8_t { kNone, kLast, kAll };

class TW_API Decoder {
 public:
  /// Repacks the weights of `file` for this machine; the file may be closed afterwards. `progress`
  /// (may be empty) gets the fraction done. Throws kBadFile, kUnsupported, kOutOfMemory.
  static Decoder load(const GgufFile& file, runtime::ThreadPool& pool,
                      const std::function<void(double)>& progress = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  const DecoderConfig& config() const;
  KvCache make_cache() const;

  /// Runs the sequences' new tokens through the model and appends them to their caches. Fills
  /// `logits` with rows of config().vocabulary: none, the last token of each sequence in order, or
  /// every token. A row's bits depend on its own sequence alone. `exact` computes linear layers in
  /// float32 instead of with int8 activations. Throws kInvalidArgument for a token outside the
  /// vocabulary, an empty sequence, or a sequence longer than the model's context.
  void forward(runtime::Context& context, std::span<const SequenceTokens> batch, bool exact,
               LogitRows rows, std::vector<float>& logits) const;

  /// forward() for one sequence, in chunks of `chunk` tokens; logits of the last token.
  void prefill(runtime::Context& context, KvCache& cache, std::span<const int32_t> tokens,
               bool exact, int64_t chunk, std::vector<float>& logits) const;

 private:
  struct Weights;
  struct Pass;
  explicit Decoder(std::unique_ptr<Weights> weights);
  std::unique_ptr<Weights> weights_;
};

}  // namespace tw::models
