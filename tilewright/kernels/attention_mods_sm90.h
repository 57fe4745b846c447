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

  /// As AttentionBiasedScores::change: scores become powers of two. Not `cut`: the mask hides none.
  template <class T, int kScores>
  TW_PTX static void change(const AttentionArguments<T>& given, const AttentionTile& tile,
                            int consumer, int first_key, float scale,
                            const Ahead<T, kScores>& ahead, bool cut, float (&scores)[kScores]) {
    if constexpr (Before::kChanges) {
      Before::change(given, tile, consumer, first_key, scale, ahead, cut, scores);
      scale = 1;
    }
    if (PrintedMask::kAny && cut)
      run<true>(given, tile, consumer, first_key, scale, scores);
    else
      run<false>(given, tile, consumer, first_key, scale, scores);
  }

 private:
  template <bool kMasked, class T, int kScores>
  TW_PTX static void run(const AttentionArguments<T>& given, const AttentionTile& tile,
                         int consumer, int first_key, float scale, float (&scores)[kScores]) {
    constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
    if (PrintedScore::kAny) scale *= kLn2;
    const AttentionRowPair rows(given, tile, consumer);
    const ScoreNumbers& numbers = given.numbers;
    ScoreAt at[2];
    PrintedScore::Row of_scores[2];
    PrintedMask::Row of_mask[2];
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {  // rows that do not exist are not stored
      at[r] = {tile.batch, rows.head[r], rows.query[r], 0, tile.q_len, tile.kv_len};
      of_scores[r] = PrintedScore::row(at[r], numbers);
      of_mask[r] = PrintedMask::row(at[r], numbers);
    }
    const int first = first_key + int(threadIdx.x) % 4 * 2;
    TW_UNROLL
    for (int i = 0; i < kScores / 2; ++i) {
      at[0].key = at[1].key = first + i / 2 * 8 + i % 2;
      const auto scores_key = PrintedScore::key(at[0], numbers);
      const auto mask_key = PrintedMask::key(at[0], numbers);
      TW_UNROLL
      for (int r = 0; r < 2; ++r) {
        float& score = scores[i / 2 * 4 + 2 * r + i % 2];
        score *= scale;
        if (PrintedScore::kAny)
          score = PrintedScore::value(score, of_scores[r], scores_key, at[r], numbers) * kLog2E;
        if (kMasked && !PrintedMask::value(score, of_mask[r], mask_key, at[r], numbers))
          score = attention_sm90::kLow;
      }
    }
  }
};

}  // namespace tw::kernels
