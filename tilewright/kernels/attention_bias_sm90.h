// What is added to scores in the registers of a warpgroup, which has them as
// attention_softmax_sm90.h says. What memory has of it is on its way while they are multiplied.
#pragma once

#include "tilewright/kernels/attention_store_sm90.h"
#include "tilewright/tile/cuda/memory.h"

namespace tw::kernels {

/// For kernels that leave scores as they are.
struct AttentionPlainScores {
  static constexpr bool kChanges = false;

  template <class T, int kScores>
  struct Ahead {
    TW_PTX Ahead(const AttentionArguments<T>&, const AttentionTile&, int, int) {}
  };
};

/// Adds biases of pairs and of distances, as AddedToScores.
struct AttentionBiasedScores {
  static constexpr bool kChanges = true;

  /// The biases of a thread's scores of a whole block, pairs of neighbours of its two rows, where
  /// they lie so.
  template <class T, int kScores>
  struct Ahead {
    static constexpr int kPairs = kScores / 4, kKeys = 2 * kScores;
    using Pair = tile::Raw<T, 2>;
    Pair pairs[2][kPairs];
    bool there;

    TW_PTX Ahead(const AttentionArguments<T>& given, const AttentionTile& tile, int consumer,
                 int first_key) {
      there = given.bias && given.bias.stride(3) == 1 && first_key + kKeys <= tile.kv_len;
      if (!there) return;
      const AttentionRowPair rows(given, tile, consumer);
      const T* from[2];
      TW_UNROLL
      for (int r = 0; r < 2; ++r) {  // what is loaded of no row is not used
        const int query = rows.exists[r] ? rows.query[r] : tile.q_len - 1;
        const int head = rows.exists[r] ? rows.head[r] : 0;
        from[r] = &given.bias(tile.batch, head, query, first_key + int(threadIdx.x) % 4 * 2);
        there &= Pair::is_aligned(from[r]);
      }
      if (!there) return;
      TW_UNROLL
      for (int i = 0; i < kPairs; ++i) TW_UNROLL
      for (int r = 0; r < 2; ++r) pairs[r][i] = Pair::load(from[r] + 8 * i);
    }
  };

  /// Scores become powers of two: `scale` times what they are, and what is added.
  template <class T, int kScores>
  TW_PTX static void change(const AttentionArguments<T>& given, const AttentionTile& tile,
                            int consumer, int first_key, float scale,
                            const Ahead<T, kScores>& biases, bool, float (&scores)[kScores]) {
    TW_UNROLL
    for (int i = 0; i < kScores; ++i) scores[i] *= scale;
    const AttentionRowPair rows(given, tile, consumer);
    const int first = first_key + int(threadIdx.x) % 4 * 2;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!rows.exists[r]) continue;
      if (biases.there)
        add_pairs(biases.pairs[r], r, scores);
      else if (given.bias)
        add_biases(given.bias[tile.batch][rows.head[r]][rows.query[r]], first, tile.kv_len, r,
                   scores);
      if (given.slopes)
        add_distances(given.slopes(rows.head[r]),
                      first - (rows.query[r] + tile.kv_len - tile.q_len), r, scores);
    }
  }

 private:
  static constexpr float kLog2E = 1.4426950408889634f;

  template <class Pair, int kPairs, int kScores>
  TW_PTX static void add_pairs(const Pair (&pairs)[kPairs], int r, float (&scores)[kScores]) {
    TW_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      const auto pair = pairs[i].template widen<float>();
      TW_UNROLL
      for (int j = 0; j < 2; ++j) {
        float& score = scores[4 * i + 2 * r + j];
        score = __fmaf_rn(pair[j], kLog2E, score);
      }
    }
  }
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
