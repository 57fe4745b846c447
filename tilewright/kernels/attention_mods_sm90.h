// Programs of a call (printed_mods.h) on scores in the registers of a warpgroup.
#pragma once

#include "tilewright/kernels/attention_bias_sm90.h"
#include "tilewright/kernels/printed_mods.h"

namespace tw::kernels {

/// After what Before does.
template <class Before>
struct AttentionModifiedScores {
  static constexpr bool kChanges = true;

  template <class T, int kScores>
  using Ahead = typename Before::template Ahead<T, kScores>;

  /// As AttentionBiasedScores::change: scores become powers of two.
  template <class T, int kScores>
  TW_PTX static void change(const AttentionArguments<T>& given, const AttentionTile& tile,
                            int consumer, int first_key, float scale,
                            const Ahead<T, kScores>& ahead, float (&scores)[kScores]) {
    constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
    if constexpr (Before::kChanges) {
      Before::change(given, tile, consumer, first_key, scale, ahead, scores);
      scale = 1;
    }
    if (PrintedMods::kScores) scale *= kLn2;
    const AttentionRowPair rows(given, tile, consumer);
    const int first = first_key + int(threadIdx.x) % 4 * 2;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {  // rows that do not exist are not stored
      ScoreAt at{tile.batch, rows.head[r], rows.query[r], 0, tile.q_len, tile.kv_len};
      TW_UNROLL
      for (int i = 0; i < kScores / 2; ++i) {
        at.key = first + i / 2 * 8 + i % 2;
        float& score = scores[i / 2 * 4 + 2 * r + i % 2];
        score *= scale;
        if (PrintedMods::kScores) score = PrintedMods::score(score, at, given.numbers) * kLog2E;
        if (!PrintedMods::sees(at, given.numbers)) score = attention_sm90::kLow;
      }
    }
  }
};

}  // namespace tw::kernels
