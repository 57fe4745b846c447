// What is added to scores in the registers of a warpgroup, which has them as
// attention_softmax_sm90.h says.
#pragma once

#include "tilewright/kernels/attention_store_sm90.h"

namespace tw::kernels {

/// For kernels that leave scores as they are.
struct AttentionPlainScores {
  static constexpr bool kChanges = false;
};

/// Adds biases of pairs and of distances, as added_to_score.
struct AttentionBiasedScores {
  static constexpr bool kChanges = true;

  /// Scores become powers of two: `scale` times what they are, and what is added.
  template <class T, int kScores>
  TW_PTX static void change(const AttentionArguments<T>& given, const AttentionTile& tile,
                            int consumer, int first_key, float scale, float (&scores)[kScores]) {
    TW_UNROLL
    for (int i = 0; i < kScores; ++i) scores[i] *= scale;
    const AttentionRowPair rows(given, tile, consumer);
    const int first = first_key + int(threadIdx.x) % 4 * 2;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!rows.exists[r]) continue;
      const int head = rows.head[r], query = rows.query[r];
      if (given.bias)
        add_biases(given.bias[tile.batch][head][query], first, tile.kv_len, r, scores);
      if (given.slopes)
        add_distances(given.slopes(head), first - (query + tile.kv_len - tile.q_len), r, scores);
    }
  }

 private:
  static constexpr float kLog2E = 1.4426950408889634f;

  /// Of row r, whose bias is `of`, for the keys from `first` on.
  template <class T, int kScores>
  TW_PTX static void add_biases(const View<const T, 1>& of, int first, int end, int r,
                                float (&scores)[kScores]) {
    const int64_t stride = of.stride(0);
    const T* from = of.data + first * stride;
    const int keys = end - first;
    TW_UNROLL
    for (int i = 0; i < kScores / 2; ++i) {
      const int key = i / 2 * 8 + i % 2;
      const float bias = key < keys ? float(*from) : 0.0f;
      from += i % 2 == 0 ? stride : 7 * stride;  // step by step: 64-bit offsets would be kept
      float& score = scores[i / 2 * 4 + 2 * r + i % 2];
      score = __fmaf_rn(bias, kLog2E, score);
    }
  }
  /// `distance` is that of the first key.
  template <int kScores>
  TW_PTX static void add_distances(float slope, int distance, int r, float (&scores)[kScores]) {
    slope *= -kLog2E;
    TW_UNROLL
    for (int i = 0; i < kScores / 2; ++i) {
      const int key = i / 2 * 8 + i % 2;
      float& score = scores[i / 2 * 4 + 2 * r + i % 2];
      score = __fmaf_rn(fabsf(float(distance + key)), slope, score);
    }
  }
};

}  // namespace tw::kernels
