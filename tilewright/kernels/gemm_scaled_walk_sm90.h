// Which parts of which tiles a block of scaled matrix multiplication computes, one after another.
// Neutral.
//
// Blocks take whole tiles in turn. Where the last of these rounds would leave most blocks idle,
// several share the k of each of its tiles: `parts` of them, as many blocks apart as there are such
// tiles. So all blocks that read the same rows of an operand read them at the same time, as they do
// in whole rounds, and find them in L2. They add their sums to out in order; blocks wait for none
// that starts after them.
#pragma once

#include <stdint.h>

#include "tilewright/core/macros.h"

namespace tw::kernels {

struct ScaledGemmPiece {
  static constexpr int64_t kNone = int64_t{1} << 62;
  int64_t tile;     // or kNone
  int first, last;  // of its blocks of k
};

/// The tiles whose k blocks share, the last ones; those before fill whole rounds.
struct ScaledGemmCut {
  int64_t first = ScaledGemmPiece::kNone;
  int tiles = 0, parts = 1;

  /// Which part of a tile is a block's.
  TW_INLINE int part(int block) const { return block / tiles; }
  /// A block's piece.
  TW_INLINE ScaledGemmPiece piece(int block, int k_blocks) const {
    const int part = tiles > 0 ? this->part(block) : parts;
    if (part >= parts) return {ScaledGemmPiece::kNone, 0, 0};
    return {first + block % tiles, int(int64_t{part} * k_blocks / parts),
            int(int64_t{part + 1} * k_blocks / parts)};
  }
};

/// Where a block is.
struct ScaledGemmWalk {
  int round = 0;  // the next one

  /// `whole`: what a block has of the k of a tile that is not cut; `step`: the tiles of a round;
  /// `block`: the first of them.
  TW_INLINE ScaledGemmPiece next(int64_t first_cut, const ScaledGemmPiece& cut,
                                 const ScaledGemmPiece& whole, int block, int step) {
    const int64_t before = int64_t{round} * step;
    ++round;
    if (before + block < first_cut) return {before + block, whole.first, whole.last};
    if (before == first_cut) return cut;
    return {ScaledGemmPiece::kNone, 0, 0};
  }
};

}  // namespace tw::kernels
