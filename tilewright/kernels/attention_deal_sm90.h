// How the warps of a block of attention on Hopper hear of tiles: one warp finds them, which takes
// long, while the others are at work.
#pragma once

#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/tile/cuda/mbarrier.h"
#include "tilewright/tile/cuda/ring.h"

namespace tw::kernels {

/// In shared memory, read by kReaders warps.
template <int kReaders>
struct AttentionTileRing {
  static constexpr int kPlaces = 4;
  using Position = tile::cuda::RingPosition<kPlaces>;

  AttentionTile tiles[kPlaces];
  tile::cuda::Mbarrier full[kPlaces], empty[kPlaces];

  TW_PTX void init() {
    for (int i = 0; i < kPlaces; ++i) {
      full[i].init(1);
      empty[i].init(kReaders);
    }
  }

  /// The work of the warp that deals: all tiles of this block of threads.
  template <class Walk, class Arguments>
  TW_PTX void deal(Walk walk, const Arguments& given, int queries, int keys) {
    Position at;
    for (bool more = true; more; at.next()) {
      AttentionTile tile;
      more = walk.next(given, queries, keys, tile);
      walk.leave(given, tile);
      put(at, tile);
    }
  }
  TW_PTX void put(const Position& at, const AttentionTile& tile) {
    if (tile::cuda::elect_one()) {
      empty[at.index].wait(at.phase ^ 1);
      tiles[at.index] = tile;
      full[at.index].arrive();
    }
    __syncwarp();
  }

  TW_PTX const AttentionTile& wait(const Position& at) {
    full[at.index].wait(at.phase);
    return tiles[at.index];
  }
  /// This warp has read the tile.
  TW_PTX void finish(Position& at) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) empty[at.index].arrive();
    __syncwarp();  // or the compiler takes warps for divided, and leaves the uniform registers
    at.next();
  }
  /// Calls `load(tile)` for each tile that sees keys.
  template <class Load>
  TW_PTX void for_each(Load load) {
    for (Position at;;) {
      const AttentionTile& tile = wait(at);
      if (tile.ends) return;
      if (!tile.empty()) load(tile);
      finish(at);
    }
  }
};

}  // namespace tw::kernels
