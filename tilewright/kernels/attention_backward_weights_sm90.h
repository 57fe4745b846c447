// What becomes of scores in the registers of a consumer of attention's backward on Hopper: weights,
// then slopes. Keys are rows and queries are columns; a thread has elements as in
// attention_softmax_sm90.h.
#pragma once

#include "tilewright/kernels/attention_backward_block_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/matrix.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardWeights : AttentionBackwardBlock<T, kBuild> {
  using Block = AttentionBackwardBlock<T, kBuild>;
  using Block::kQueries, Block::kRowBytes, Block::kRows, Block::kWarpgroup;
  using typename Block::Order;
  using Scores = float[kQueries / 2];  // of 64 keys and a block of queries
  using Weights = uint32_t[kQueries / 4];
  const typename Block::Arguments& given;

  TW_PTX static void mask(const Order& order, int first_key, int block, Scores& scores) {
    const int lane = int(threadIdx.x) % 32, offset = block * kQueries + lane % 4 * 2;
    const int key = first_key + int(threadIdx.x) % kWarpgroup / 32 * 16 + lane / 4;
    AttentionSpan spans[2];
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const AttentionInterval seeing = order.seeing(key + 8 * r, key + 8 * r);
      spans[r] = {seeing.begin - offset,
                  (key + 8 * r < order.sequence.keys ? seeing.end : 0) - offset};
    }
    mask_scores(scores, spans);
  }

  /// Scores of 64 keys become weights, of which a copy is rounded; what remains are weights times
  /// the slope of the cap.
  TW_PTX void weigh(const float* lse, Scores& scores, Weights& weights) const {
    const auto* const logs = reinterpret_cast<const float4*>(lse) + threadIdx.x % 4;
    if (given.score_scale != 0)
      exponentiate<true>(logs, scores, weights);
    else
      exponentiate<false>(logs, scores, weights);
  }
  template <bool kCaps>
  TW_PTX void exponentiate(const float4* logs, Scores& scores, Weights& weights) const {
    TW_UNROLL
    for (int i = 0; i < kQueries / 2; i += 8) {
      const float4 four = logs[i / 2];  // of sixteen queries a thread has four
      TW_UNROLL
      for (int r = 0; r < 8; r += 2) {
        const float2 log = r < 4 ? float2{four.x, four.y} : float2{four.z, four.w};
        float weight[2];
        TW_UNROLL
        for (int c = 0; c < 2; ++c) {
          float& score = scores[i + r + c];
          weight[c] = attention_sm90::exp2(
              __fmaf_rn(score, given.exponent_scale, c == 0 ? -log.x : -log.y));
          // A masked score is -inf, where the cap has no slope.
          score = !kCaps ? weight[c] : weight[c] == 0 ? 0 : weight[c] * (1 - score * score);
        }
        weights[(i + r) / 2] = tile::cuda::pack<T>(weight[0], weight[1]);
      }
    }
  }

  /// weights * (grad · v - grad · out), rounded.
  TW_PTX static void slope(const Scores& weights, const Scores& products, const float* deltas,
                           Weights& slopes) {
    const auto* const fours = reinterpret_cast<const float4*>(deltas) + threadIdx.x % 4;
    TW_UNROLL
    for (int i = 0; i < kQueries / 2; i += 8) {
      const float4 four = fours[i / 2];
      TW_UNROLL
      for (int r = 0; r < 8; r += 2) {
        const float2 delta = r < 4 ? float2{four.x, four.y} : float2{four.z, four.w};
        slopes[(i + r) / 2] =
            tile::cuda::pack<T>(weights[i + r] * (products[i + r] - delta.x),
                                weights[i + r + 1] * (products[i + r + 1] - delta.y));
      }
    }
  }

  /// Weights as registers hold them, of a warpgroup, for another one.
  TW_PTX static void put_weights(float* to, const Scores& weights) {
    TW_UNROLL
    for (int i = 0; i < kQueries / 2; i += 4)
      *place(to, i) = {weights[i], weights[i + 1], weights[i + 2], weights[i + 3]};
  }
  TW_PTX static void get_weights(float* from, Scores& weights) {
    TW_UNROLL
    for (int i = 0; i < kQueries / 2; i += 4) {
      const float4 four = *place(from, i);
      weights[i] = four.x, weights[i + 1] = four.y, weights[i + 2] = four.z,
      weights[i + 3] = four.w;
    }
  }

  /// Rows are keys, 64 queries of 128 bytes each, swizzled as wgmma reads them.
  TW_PTX static void store_slopes(char* to, int first, const Weights& slopes) {
    TW_UNROLL
    for (int i = 0; i < kQueries / 16; ++i)
      tile::cuda::store_matrices(matrices(to, first, i), slopes[4 * i], slopes[4 * i + 1],
                                 slopes[4 * i + 2], slopes[4 * i + 3]);
  }
  /// 64 rows of 64 elements, which lie as slopes do, become left operands.
  TW_PTX static void load_rows(char* from, int first, uint32_t (&rows)[kRowBytes / 8]) {
    TW_UNROLL
    for (int i = 0; i < kRowBytes / 32; ++i) {
      uint32_t four[4];
      tile::cuda::load_matrices(four, matrices(from, first, i));
      TW_UNROLL
      for (int n = 0; n < 4; ++n) rows[4 * i + n] = four[n];
    }
  }

 private:
  /// Where the thread's row of 16 columns is, of 64 rows after the first.
  TW_PTX static char* matrices(char* rows, int first, int columns) {
    const int thread = int(threadIdx.x) % kWarpgroup, lane = thread % 32;
    const int row = first + thread / 32 * 16 + lane % 16;
    const int unit = 2 * columns + lane / 16;  // of 16 bytes
    return rows + row * kRowBytes + (unit ^ (row % 8)) * 16;
  }
  TW_PTX static float4* place(float* weights, int i) {
    return reinterpret_cast<float4*>(weights) + i / 4 * kWarpgroup + int(threadIdx.x) % kWarpgroup;
  }
};

}  // namespace tw::kernels
