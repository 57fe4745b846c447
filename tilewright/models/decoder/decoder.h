// A decoder-only language model on tilewright's operators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilewright/core/machine.h"
#include "tilewright/kernels/linear_quantized_format.h"
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

/// What the linear layers of a prompt, or of a text that is only read, compute with: int8 or bf16,
/// whichever this machine multiplies faster. Those of an answer, token by token, take int8: fewer
/// steps for each weight. `exact`: float32, for both.
TW_API kernels::QuantizedCompute prompt_compute(const Machine& machine, bool exact);
/// What keys and values are held as: float32; or half the memory to read for each new token, f16,
/// or bf16 where this machine multiplies attention in it.
TW_API DType kv_dtype(const Machine& machine, bool exact);
TW_INLINE kernels::QuantizedCompute answer_compute(bool exact) {
  return exact ? kernels::QuantizedCompute::kF32 : kernels::QuantizedCompute::kInt8;
}

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
  /// every token. A row's bits depend on its own sequence alone, and on what its linear layers
  /// compute with. Throws kInvalidArgument for a token outside the vocabulary, an empty sequence,
  /// or a sequence longer than the model's context.
  void forward(runtime::Context& context, std::span<const SequenceTokens> batch,
               kernels::QuantizedCompute compute, LogitRows rows, std::vector<float>& logits) const;

  /// forward() for one sequence, in chunks of `chunk` tokens; logits of the last token. `progress`,
  /// if any, sees the fraction that is done before each chunk and at the end.
  void prefill(runtime::Context& context, KvCache& cache, std::span<const int32_t> tokens,
               kernels::QuantizedCompute compute, int64_t chunk, std::vector<float>& logits,
               const std::function<void(double)>& progress = {}) const;

 private:
  struct Weights;
  struct Pass;
  explicit Decoder(std::unique_ptr<Weights> weights);
  std::unique_ptr<Weights> weights_;
};

}  // namespace tw::models
