// Which parts of which tiles a block of scaled matrix multiplication computes, one after another.
// Neutral.
//
// Blocks take whole tiles in turn. Where the last of these rounds would leave many blocks idle, the
// first `cut_tiles` tiles lie end to end on a line of blocks of k, and each block has an equal part
// of it first, at least a tile long (stream-K, Osama et al., arXiv:2301.03598). A tile is then in
// two parts at most. The later part of its k belongs to the block before, which begins with it and
// leaves its sums; the other block, which comes to the tile last, adds them. Blocks wait for none
// that starts after them.
#pragma once

#include <cstdint>

#include "tilewright/core/macros.h"

namespace tw::kernels {

struct ScaledGemmPiece {
  int64_t tile;
  int first, last;  // of its blocks of k
};

/// What of a product is a block's. At most so many blocks as make cut_tiles * k_blocks * blocks
/// < 2^31.
struct ScaledGemmShare {
  int block, blocks;
  int split;      // neighbouring blocks that share the k of every tile; cut_tiles is 0 then
  int cut_tiles;  // on the line
  int k_blocks;   // of a tile

  TW_INLINE int begin() const { return line(blocks - 1 - block); }
  TW_INLINE int end() const { return line(blocks - block); }

 private:
  TW_INLINE int line(int blocks_before) const {
    return cut_tiles * k_blocks * blocks_before / blocks;
  }
};

/// Where a block is. What follows from its share is worked out anew at each piece: while it
/// multiplies, registers are scarce.
class ScaledGemmWalk {
 public:
  TW_INLINE explicit ScaledGemmWalk(const ScaledGemmShare& of)
      : at_(of.begin()), tile_(of.cut_tiles + of.block / of.split) {}

  /// The next piece; after the line they do not end.
  TW_INLINE ScaledGemmPiece next(const ScaledGemmShare& of) {
    const int end = of.end();
    if (at_ < end) {
      const int tile = at_ / of.k_blocks, first = at_ - tile * of.k_blocks, left = end - at_;
      const int last = left < of.k_blocks - first ? first + left : of.k_blocks;
      at_ += last - first;
      return {tile, first, last};
    }
    const int64_t tile = tile_;
    tile_ += of.blocks / of.split;
    const int part = of.block % of.split;
    return {tile, part * of.k_blocks / of.split, (part + 1) * of.k_blocks / of.split};
  }

 private:
  int at_;        // on the line
  int64_t tile_;  // the next whole one
};

}  // namespace tw::kernels
