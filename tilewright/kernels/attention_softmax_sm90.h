// What becomes of scores in the registers of a warpgroup: cap, mask, and the running maximum and
// sum of FlashAttention (arXiv:2205.14135), exponents of two.
//
// A thread has two rows, `row` and `row` + 8, and of every eight columns two: element
// 4 i + 2 r + c is row r, column 8 i + 2 (thread % 4) + c (tile/cuda/wgmma.h).
#pragma once

#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/exponential.h"

namespace tw::kernels {

namespace attention_sm90 {

inline constexpr float kLow = -__builtin_inff();

using tile::cuda::exp2;

/// Exact to 1e-7 of the cap, unlike tanh.approx, whose 5e-4 of a cap of 50 would show.
TW_PTX float tanh(float x) {
  constexpr float kTwoLog2E = 2.885390082f;
  return 1 - __fdividef(2, 1 + exp2(x * kTwoLog2E));
}
TW_PTX float max_over_quad(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
TW_PTX float sum_over_quad(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace attention_sm90

template <int kScores>
TW_PTX void cap_scores(float (&scores)[kScores], float scale) {
  TW_UNROLL
  for (int i = 0; i < kScores; ++i) scores[i] = attention_sm90::tanh(scores[i] * scale);
}

template <int kScores>
TW_PTX void negate_scores(float (&scores)[kScores]) {
  TW_UNROLL
  for (float& score : scores) score = -score;
}

template <int kScores>
TW_PTX void mask_scores(float (&scores)[kScores], const AttentionSpan (&seen)[2]) {
  TW_UNROLL
  for (int i = 0; i < kScores; ++i) {
    const int column = i / 4 * 8 + i % 2;
    const AttentionSpan& span = seen[i / 2 % 2];
    if (column < span.begin || column >= span.end) scores[i] = attention_sm90::kLow;
  }
}

/// Weights of all keys become the left operand of wgmma (tile/cuda/wgmma_fragment.h): as they
/// stand, if values are where AttentionTranspose puts them where these have 8 bits.
template <class T, int kScores, int kWords>
TW_PTX void round_weights(const float (&weights)[kScores], uint32_t (&words)[kWords]) {
  if constexpr (sizeof(T) == 1) {
    TW_UNROLL
    for (int i = 0; i < kWords; ++i) {  // a word of each row for every 16 keys
      const float* const w = weights + i / 2 * 8 + i % 2 * 2;
      words[i] = tile::cuda::pack_e4m3(w[0], w[1], w[4], w[5]);
    }
  } else {
    TW_UNROLL
    for (int i = 0; i < kWords; ++i)
      words[i] = tile::cuda::pack<T>(weights[2 * i], weights[2 * i + 1]);
  }
}

/// The two rows of a thread.
struct AttentionRowState {
  float high[2] = {attention_sm90::kLow, attention_sm90::kLow};  // in powers of two, less the lift
  float total[2] = {0, 0};                                       // of the thread's own columns

  /// Scores become weights, up to 2^lift; what was summed before is to be multiplied by `keep`.
  template <int kScores>
  TW_PTX void update(float (&scores)[kScores], float scale, float (&keep)[2], float lift = 0) {
    raise(scores, scale, keep, lift);
    weigh(scores, scale, keep);
  }
  /// The first half of it: the maxima.
  template <int kScores>
  TW_PTX void raise(const float (&scores)[kScores], float scale, float (&keep)[2], float lift = 0) {
    using namespace attention_sm90;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      float top = scores[2 * r];
      TW_UNROLL
      for (int i = 2 * r; i < kScores; i += 4) top = fmaxf(top, fmaxf(scores[i], scores[i + 1]));
      raise(r, max_over_quad(top) * scale - lift, keep[r]);
    }
  }
  TW_PTX void raise(int r, float to, float& keep) {
    const float top = fmaxf(to, high[r]);
    keep = attention_sm90::exp2(high[r] - base(top));
    high[r] = top;
  }
  /// The second: the weights.
  template <int kScores>
  TW_PTX void weigh(float (&scores)[kScores], float scale, const float (&keep)[2]) {
    using namespace attention_sm90;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float base = AttentionRowState::base(high[r]);
      float sum = 0;
      TW_UNROLL
      for (int i = 2 * r; i < kScores; i += 4) {
        TW_UNROLL
        for (int c = 0; c < 2; ++c) {
          scores[i + c] = exp2(__fmaf_rn(scores[i + c], scale, -base));
          sum += scores[i + c];
        }
      }
      total[r] = __fmaf_rn(total[r], keep[r], sum);
    }
  }

  /// -inf - -inf is NaN, but these weigh nothing.
  TW_PTX static float base(float high) { return high == attention_sm90::kLow ? 0 : high; }

  /// The sums of whole rows, with the sink's share; returns the factors that normalise.
  TW_PTX void finish(const float (&sink)[2], float (&factor)[2]) {
    using namespace attention_sm90;
    constexpr float kLog2E = 1.4426950408889634f;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      total[r] = sum_over_quad(total[r]);
      float keep = 1;
      if (sink[r] != kLow) {
        const float exponent = sink[r] * kLog2E, top = fmaxf(high[r], exponent);
        keep = exp2(high[r] - top);
        total[r] = __fmaf_rn(total[r], keep, exp2(exponent - top));
        high[r] = top;
      }
      factor[r] = total[r] == 0 ? 0 : __fdividef(keep, total[r]);
    }
  }
  TW_PTX float lse(int r) const {
    constexpr float kLn2 = 0.6931471805599453f;
    return (high[r] + __log2f(total[r])) * kLn2;
  }
};

}  // namespace tw::kernels
