// What becomes of a row of scores on the CPU: cap, bias, mask, and weights. Scores are in units of
// log2 e.
#pragma once

#include "tilewright/kernels/attention_cpu.h"
#include "tilewright/kernels/score_mods_cpu.h"

namespace tw::kernels::attention_detail {

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// What is added to the scores of a sequence (AddedToScores), whatever its dtype, so that the rest
/// does not depend on it.
class ScoreBias {
 public:
  ScoreBias() = default;
  template <class T, class U>
  TW_INLINE ScoreBias(const AttentionSequence<T, U>& sequence, const AttentionOptions& options)
      : slopes_(options.slopes), shift_(sequence.kv_len - sequence.q_len()) {
    const View<const T, 3>& bias = sequence.bias;
    if (!bias) return;
    data_ = bias.data;
    head_stride_ = bias.stride(0), query_stride_ = bias.stride(1), key_stride_ = bias.stride(2);
    element_ = tile::same_type<T, f16> ? kF16 : tile::same_type<T, bf16> ? kBf16 : kF32;
  }

  TW_INLINE explicit operator bool() const { return data_ != nullptr || slopes_; }

  /// To the scores of `keys`, counted from key `start`. Writes up to a vector more.
  template <class P>
  __attribute__((noinline)) void add(P p, int64_t q_head, int64_t query, int64_t start,
                                     KeyRange keys, float* scores) const {
    const int64_t first = start + keys.begin, count = keys.end - keys.begin;
    scores += keys.begin;
    if (data_ != nullptr) {
      const int64_t at = q_head * head_stride_ + query * query_stride_ + first * key_stride_;
      if (element_ == kF32) add_row(p, static_cast<const float*>(data_) + at, count, scores);
      if (element_ == kF16) add_row(p, static_cast<const f16*>(data_) + at, count, scores);
      if (element_ == kBf16) add_row(p, static_cast<const bf16*>(data_) + at, count, scores);
    }
    if (slopes_)
      add_distances(p, slopes_(q_head) * -kLog2E, first - (query + shift_), count, scores);
  }

 private:
  enum Element { kF32, kF16, kBf16 };

  template <class P, class T>
  TW_INLINE void add_row(P, const T* from, int64_t count, float* to) const {
    using V = typename P::f32;
    constexpr int kN = P::template kLanes<float>;
    for (int64_t j = 0; j < count; j += kN, from += kN * key_stride_) {
      const int lanes = count - j < kN ? int(count - j) : kN;
      const V bias = key_stride_ != 1 ? tile::gather<V>(from, key_stride_, lanes)
                     : lanes == kN    ? tile::load<V>(from)
                                      : tile::load_partial<V>(from, lanes);
      tile::store(to + j, tile::fma(bias, tile::splat<V>(kLog2E), tile::load<V>(to + j)));
    }
  }
  /// slope * |distance|, the first of which is given.
  template <class P>
  TW_INLINE static void add_distances(P, float slope, int64_t distance, int64_t count, float* to) {
    using V = typename P::f32;
    constexpr int kN = P::template kLanes<float>;
    for (int64_t j = 0; j < count; j += kN) {
      const V after = tile::iota<V>(float(distance + j));
      tile::store(to + j, tile::fma(tile::max(after, -after), tile::splat<V>(slope),
                                    tile::load<V>(to + j)));
    }
  }

  const void* data_ = nullptr;
  int64_t head_stride_ = 0, query_stride_ = 0, key_stride_ = 0;
  Element element_ = kF32;
  View<const float, 1> slopes_{};
  int64_t shift_ = 0;  // from a query to its position among the keys
};

/// Caps scores, which are in units of the cap, and then in those of log2 e.
template <class P>
TW_INLINE void cap_row(P, KeyRange chunks, float softcap, float* scores) {
  using V = typename P::f32;
  for (int64_t j = chunks.begin; j < chunks.end; j += P::template kLanes<float>)
    tile::store(scores + j, tile::tanh(tile::load<V>(scores + j)) * softcap);
}

/// Sets the scores of the chunks that cover `visible` to -inf outside it and returns the maximum.
template <class P>
TW_INLINE float mask_row(P, KeyRange chunks, KeyRange visible, float* scores) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  const float infinity = __builtin_inff();
  for (int64_t j = chunks.begin; j < visible.begin; ++j) scores[j] = -infinity;
  for (int64_t j = visible.end; j < chunks.end; ++j) scores[j] = -infinity;

  V top[4];
  TW_UNROLL
  for (V& t : top) t = tile::splat<V>(-infinity);
  for (int64_t j = chunks.begin; j < chunks.end; j += kChunk<P>) {
    TW_UNROLL
    for (int u = 0; u < 4; ++u) top[u] = tile::max(top[u], tile::load<V>(scores + j + u * kN));
  }
  const V widest = tile::max(tile::max(top[0], top[1]), tile::max(top[2], top[3]));
  return tile::fold_lanes(widest, [](float a, float b) { return a > b ? a : b; });
}

/// What scores are weighed from, given their maximum, a row's or that of a row in each lane: those
/// of a row that are all -inf weigh nothing.
template <class V>
TW_INLINE V base_of(V m) {
  return m == -__builtin_inff() ? V{} : m;
}

/// From scores to weights 2^(score - m), in place, times scale[j] where there is one; those rounded
/// to bf16 take the first half of the row. Returns the sum of what was neither scaled nor rounded.
template <class P, class E>
TW_INLINE float weights_of_row(P, KeyRange chunks, float m, const float* scale, float* scores) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  V sum[4] = {};
  const V base = tile::splat<V>(base_of(m));
  for (int64_t j = chunks.begin; j < chunks.end; j += kChunk<P>) {
    TW_UNROLL
    for (int u = 0; u < 4; ++u) {
      float* const at = scores + j + u * kN;
      V weight = tile::exp2_nonpositive(tile::load<V>(at) - base);
      sum[u] += weight;
      if (scale != nullptr) weight *= tile::load<V>(scale + j + u * kN);
      if constexpr (tile::same_type<E, float>)
        tile::store(at, weight);
      else
        tile::store_normal(reinterpret_cast<bf16*>(scores) + j + u * kN, weight);
    }
  }
  return tile::fold_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]),
                          [](float a, float b) { return a + b; });
}

}  // namespace tw::kernels::attention_detail
