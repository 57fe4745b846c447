// One token per row of logits: penalties, temperature, top-k, top-p, min-p, draw, in this order.
//
//   score   the logit; of a token in the history, first divided by repetition_penalty where
//   positive and
//           multiplied where negative (Keskar et al., arXiv:1909.05858), then less
//           frequency_penalty per occurrence and less presence_penalty
//   weight  exp((score - largest score) / temperature)
//   top-k   keeps a token if fewer than k scores are larger
//   top-p   keeps a token if those with larger scores hold less than p of the weight that is left
//           (Holtzman et al., arXiv:1904.09751)
//   min-p   keeps a token if its weight is at least min_p (the largest is 1; arXiv:2407.01082)
//   draw    the first token at which the running sum of weights exceeds u times the whole, u from
//           Philox with key `seed` and counter (offset, row)
//
// One program per row; the vocabulary is never sorted. Weights are float32, their sums float64, so
// that the draw does not depend on the length of the vocabulary. Of a GPU see sample_gpu.h.
#pragma once

#include "tilewright/kernels/sample_gpu.h"
#include "tilewright/kernels/select.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/philox.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

struct Sample {
  static constexpr int64_t kBlock = 256;  // of the two-level search of the draw

  Rows<const float> logits;     // [*, vocabulary]; NaN counts as -inf
  Rows<const int32_t> history;  // [*, length], negative entries are padding; or absent
  float temperature;            // 0: the first token of the largest score
  int64_t top_k;                // 0: all
  float top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
  int64_t seed, offset;
  Rows<int32_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if (P::kOnGpu) return SamplePrograms::plan(logits.rows, logits.cols, bool(history));
    const int64_t blocks = padded() / kBlock;
    return tile::plan_of(logits.rows, 8 * (RankSelect::kBins + blocks) + (4 + 4 + 4) * padded());
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    if constexpr (P::kOnGpu) {
      if (history || logits.col_stride == 1)
        SampleOnGpu<P, Sample, true>(p, *this).run_rows();
      else
        SampleOnGpu<P, Sample, false>(p, *this).run_rows();
    }
#else
    choose(p);
#endif
  }

 private:
  TW_INLINE int64_t padded() const { return (logits.cols + kBlock - 1) / kBlock * kBlock; }

#if !defined(__CUDACC__)
  template <class P>
  TW_INLINE void choose(P p) const {
    const int64_t vocabulary = logits.cols;
    double* const histogram = p.template scratch<double>();
    double* const sums = histogram + RankSelect::kBins;
    float* const scores = reinterpret_cast<float*>(sums + padded() / kBlock);
    float* const weights = scores + padded();
    const auto score_row = view(scores, vocabulary), weight_row = view(weights, vocabulary);

    score(p, score_row, reinterpret_cast<int32_t*>(weights + padded()));
    const float high = tile::reduce_row(p, tile::Max{}, vocabulary,
                                        [&](auto at) { return tile::load(score_row, at); });
    int64_t first = 0;
    while (first < vocabulary - 1 && scores[first] != high) ++first;
    if (temperature == 0 || high == -__builtin_inff()) {
      out(p.index(), 0) = int32_t(first);
      return;
    }

    // A score equal to the largest weighs 1 even when both are infinite.
    tile::for_row(p, vocabulary, [&](auto at) {
      const auto s = tile::load(score_row, at);
      const auto w = tile::exp_nonpositive((s - high) / temperature);
      using V = decltype(w + w);
      tile::store_cached(weight_row, at, tile::select(s == high, tile::splat<V>(1.0f), V(w)));
    });
    const auto keep_from = [&](float threshold) {
      tile::for_row(p, vocabulary, [&](auto at) {
        const auto s = tile::load(score_row, at), w = tile::load(weight_row, at);
        using V = decltype(w + w);
        tile::store_cached(weight_row, at, tile::select(s >= threshold, V(w), V{}));
      });
    };
    if (top_k > 0 && top_k < vocabulary)
      keep_from(RankSelect::threshold(p, scores, vocabulary, double(top_k), 0, histogram,
                                      [](int64_t) { return 1; }));
    if (top_p < 1)
      keep_from(RankSelect::threshold(p, scores, vocabulary, 0, double(top_p), histogram,
                                      [&](int64_t i) { return weights[i]; }));
    if (min_p > 0)
      tile::for_row(p, vocabulary, [&](auto at) {
        const auto w = tile::load(weight_row, at);
        using V = decltype(w + w);
        tile::store_cached(weight_row, at, tile::select(w >= min_p, V(w), V{}));
      });
    out(p.index(), 0) = int32_t(draw(p, weights, sums));
  }

  /// The logits after penalties, without NaN and -0. `counts` is scratch, one for each token.
  template <class P>
  TW_INLINE void score(P p, const View<float, 1>& scores, int32_t* counts) const {
    const auto row = logits.row(p.index());
    tile::for_row(p, logits.cols, [&](auto at) {
      const auto x = tile::load(row, at);
      using V = decltype(x + x);
      tile::store_cached(scores, at,
                         tile::select(x == x, V(x + 0.0f), tile::splat<V>(-__builtin_inff())));
    });
    if (!history) return;
    const auto tokens = history.row(p.index());
    const auto each = [&](auto f) {
      for (int64_t i = 0; i < tokens.size(0); ++i)
        if (tokens(i) >= 0) {
          tile::require_index(p, tokens(i), logits.cols);
          f(tokens(i));
        }
    };
    each([&](int32_t token) { counts[token] = 0; });
    each([&](int32_t token) { ++counts[token]; });
    each([&](int32_t token) {
      if (counts[token] == 0) return;
      float& s = scores.data[token];
      s = s < 0 ? s * repetition_penalty : s / repetition_penalty;
      s = s - frequency_penalty * float(counts[token]) - presence_penalty + 0.0f;
      counts[token] = 0;  // each token once
    });
  }

  template <class P>
  TW_INLINE int64_t draw(P p, const float* weights, double* sums) const {
    double total = 0;
    const int64_t blocks = padded() / kBlock;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t rest = logits.cols - b * kBlock;
      const auto block = view(weights + b * kBlock, rest < kBlock ? rest : kBlock);
      sums[b] = double(tile::reduce_row(p, tile::Sum{}, block.size(0),
                                        [&](auto at) { return tile::load(block, at); }));
      total += sums[b];
    }
    const double target =
        total * tile::uniform(tile::philox(uint64_t(seed), uint64_t(offset), uint64_t(p.index())));
    double sum = 0;
    int64_t b = 0;
    while (b < blocks - 1 && sum + sums[b] <= target) sum += sums[b++];
    // The block's own rounding may leave the target just out of reach: its last token, then.
    int64_t token = 0;
    for (int64_t i = b * kBlock; i < logits.cols && i < (b + 1) * kBlock; ++i) {
      if (weights[i] == 0) continue;
      token = i;
      sum += double(weights[i]);
      if (sum > target) break;
    }
    return token;
  }
#endif
};

}  // namespace tw::kernels
