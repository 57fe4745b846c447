// What becomes of the product of a query and a key before it is a weight, for kernels that go from
// pair to pair.
#pragma once

#include "tilewright/kernels/attention_blocks.h"
#include "tilewright/kernels/printed_mods.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// The factor of the products of a kv head.
template <class T, class U>
TW_INLINE float score_scale(const AttentionSequence<T, U>& sequence, const AttentionShape& shape,
                            const AttentionOptions& options, int64_t kv_head) {
  const float scale =
      options.scale == 0 ? tile::rsqrt(static_cast<float>(shape.dims)) : options.scale;
  return scale * sequence.query_scale(kv_head);
}

/// Of a query of a head: scaled products to scores.
template <class P, class T>
struct ChangedScore {
  const AttentionOptions& options;
  ScoreAt at;  // but for the key
  AddedToScores<T> added;

  template <class U>
  TW_INLINE ChangedScore(const AttentionSequence<T, U>& sequence, const AttentionOptions& given,
                         int64_t q_head, int64_t query)
      : options(given),
        at{int(sequence.index),   int(q_head),         int(query), 0,
           int(sequence.q_len()), int(sequence.kv_len)},
        added(sequence, given, q_head, query) {}

  /// Whether scores are anything but scaled products.
  template <class U>
  TW_INLINE static bool changes(const AttentionSequence<T, U>& sequence,
                                const AttentionOptions& options) {
    return PrintedScore::kAny || PrintedMask::kAny || options.softcap > 0 || sequence.bias ||
           options.slopes;
  }

  TW_INLINE float operator()(float score, int64_t key) const {
    if (options.softcap > 0) {
      const auto wide = tile::splat<typename P::template Vec<float>>(score / options.softcap);
      score = options.softcap * tile::first_lane(tile::tanh(wide));
    }
    return modified(added.to(score, key), key);
  }

 private:
  TW_INLINE float modified(float score, int64_t key) const {
    if constexpr (PrintedScore::kAny || PrintedMask::kAny) {
      ScoreAt pair = at;
      pair.key = int(key);
      const auto value = [&](auto mod) {
        const ScoreNumbers& numbers = options.mods.numbers;
        return mod.value(score, mod.row(pair, numbers), mod.key(pair, numbers), pair, numbers);
      };
      const bool seen = value(PrintedMask{});
      score = seen ? value(PrintedScore{}) : -__builtin_inff();
    }
    return score;
  }
};

}  // namespace tw::kernels
