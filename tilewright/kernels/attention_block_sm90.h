// What the warps of a block of attention on Hopper share.
#pragma once

#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/tile/cuda/mbarrier.h"

namespace tw::kernels {

template <class T, AttentionBuild kBuild>
struct AttentionBlock {
  static constexpr int kDims = kBuild.dims, kKeys = kBuild.keys, kStages = kBuild.stages;
  static constexpr int kConsumers = kBuild.consumers, kQueryBuffers = kBuild.query_buffers();
  static constexpr int kRows = 64, kRowBytes = 128;
  static constexpr int kChunk = 64, kChunks = kDims / kChunk;  // columns in 128 bytes
  static constexpr int kChunkBytes = kKeys * kRowBytes, kQueryChunkBytes = kRows * kRowBytes;
  static constexpr int kTileSlots = 4, kTileReaders = 4 * kConsumers + 2;  // warps

  struct alignas(1024) Shared {
    char k[kStages][kBuild.block_bytes()];
    char v[kStages][kBuild.block_bytes()];
    char q[kQueryBuffers][kConsumers][kBuild.query_bytes()];
    AttentionTile tiles[kTileSlots];
    tile::cuda::Mbarrier tile_full[kTileSlots], tile_empty[kTileSlots];
    tile::cuda::Mbarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    tile::cuda::Mbarrier q_full[kQueryBuffers][kConsumers], q_empty[kQueryBuffers][kConsumers];
    tile::cuda::Mbarrier tail_full;
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes());

  /// A place in a ring.
  template <int kCount>
  struct Ring {
    int index = 0;
    uint32_t phase = 0;

    TW_PTX void next() {
      if (++index == kCount) {
        index = 0;
        phase ^= 1;
      }
    }
  };
  using Position = Ring<kStages>;
  using QueryBuffer = Ring<kQueryBuffers>;
  using TileSlot = Ring<kTileSlots>;

  TW_PTX static void init(Shared& shared) {
    for (int i = 0; i < kStages; ++i) {
      shared.k_full[i].init(1);
      shared.v_full[i].init(1);
      shared.k_empty[i].init(kConsumers);
      shared.v_empty[i].init(kConsumers);
    }
    for (int i = 0; i < kQueryBuffers; ++i)
      for (int c = 0; c < kConsumers; ++c) {
        shared.q_full[i][c].init(1);
        shared.q_empty[i][c].init(1);
      }
    for (int i = 0; i < kTileSlots; ++i) {
      shared.tile_full[i].init(1);
      shared.tile_empty[i].init(kTileReaders);
    }
    shared.tail_full.init(1);
    tile::cuda::fence_barrier_init();
  }

  TW_PTX static const AttentionTile& wait_for_tile(Shared& shared, const TileSlot& at) {
    shared.tile_full[at.index].wait(at.phase);
    return shared.tiles[at.index];
  }
  /// This warp has read the tile.
  TW_PTX static void finish_tile(Shared& shared, TileSlot& at) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) shared.tile_empty[at.index].arrive();
    __syncwarp();  // or the compiler takes warps for divided, and leaves the uniform registers
    at.next();
  }
};

}  // namespace tw::kernels
