// What the warps of a block of latent attention on Hopper share.
#pragma once

#include "tilewright/kernels/attention_deal_sm90.h"
#include "tilewright/kernels/attention_line_sm90.h"
#include "tilewright/kernels/mla_build_sm90.h"
#include "tilewright/tile/cuda/mbarrier.h"

namespace tw::kernels {

template <class T, MlaBuild kBuild>
struct MlaBlock {
  static constexpr int kKeys = MlaBuild::kKeys, kRows = MlaBuild::kRows, kRowBytes = 128;
  static constexpr int kPieces = kBuild.pieces(), kRotated = kPieces - 1;
  static constexpr int kHalfPieces = kRotated / 2, kPieceBytes = kKeys * kRowBytes;
  static constexpr int kConsumers = 2;
  static constexpr int kGatherWarps = 4;  // that load, where keys are gathered
  using Tiles = AttentionTileRing<4 * kConsumers>;

  struct alignas(1024) Shared {
    char k[2][kPieces][kPieceBytes];
    char q[kPieces][kPieceBytes];
    float high[2][kRows], totals[2][kRows];
    Tiles tiles;
    AttentionLine lines[kGatherWarps];  // of the warps that load
    tile::cuda::Mbarrier k_full[2][kPieces], tail_full[2], q_full, q_empty;
    tile::cuda::Mbarrier k_empty[2][2];  // the half that the block's own consumer multiplies; rest
  };
  static_assert(sizeof(Shared) <= kBuild.shared_bytes());

  TW_PTX static void init(Shared& shared, bool gathers) {
    for (int b = 0; b < 2; ++b) {
      for (int i = 0; i < kPieces; ++i) shared.k_full[b][i].init(gathers ? 32 * kGatherWarps : 1);
      for (int i = 0; i < 2; ++i) shared.k_empty[b][i].init(1);
      shared.tail_full[b].init(1);
    }
    shared.tiles.init();
    shared.q_full.init(1);
    shared.q_empty.init(kConsumers);
    tile::cuda::fence_barrier_init();
  }

  /// The piece whose barrier tells that one has been gathered: of a half, the last.
  TW_PTX static constexpr int gathered_with(int piece) {
    return piece == kRotated ? piece : piece / kHalfPieces * kHalfPieces + kHalfPieces - 1;
  }
  /// Pieces of block `buffer` of a pair as its consumer reads them: its own half first.
  TW_PTX static constexpr int nth_piece(int buffer, int i) {
    return i == kRotated                      ? i
           : i < kHalfPieces == (buffer == 0) ? i % kHalfPieces
                                              : kHalfPieces + i % kHalfPieces;
  }
};

}  // namespace tw::kernels
