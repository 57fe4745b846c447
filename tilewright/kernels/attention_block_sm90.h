// What the warps of a block of attention on Hopper share.
#pragma once

#include "tilewright/kernels/attention_deal_sm90.h"

namespace tw::kernels {

/// What arrives for those who make operands of it: nothing.
template <AttentionBuild kBuild>
struct AttentionNarrowBlocks {
  TW_PTX void init() {}
};
/// Keys and values of 8 bits, rows after each other, and what they are multiplied with.
template <AttentionBuild kBuild>
  requires(kBuild.widens())
struct AttentionNarrowBlocks<kBuild> {
  static constexpr int kStages = kBuild.narrow_stages, kWarps = 4;  // that widen

  alignas(128) char k[kStages][kBuild.narrow_bytes()];
  alignas(128) char v[kStages][kBuild.narrow_bytes()];
  float k_scales[kBuild.stages][kBuild.keys];  // which scores are multiplied with
  float v_scales[2][kBuild.keys];              // of every other block
  tile::cuda::Mbarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];

  TW_PTX void init() {
    for (int i = 0; i < kStages; ++i) {
      k_full[i].init(1);
      v_full[i].init(1);
      k_empty[i].init(kWarps);
      v_empty[i].init(kWarps);
    }
  }
};
/// Values to be transposed, in the swizzle.
template <AttentionBuild kBuild>
  requires(kBuild.transposes())
struct AttentionNarrowBlocks<kBuild> {
  static constexpr int kStages = kBuild.stages;

  alignas(1024) char v[kStages][kBuild.loaded_value_bytes()];
  tile::cuda::Mbarrier v_full[kStages], v_empty[kStages];

  TW_PTX void init() {
    for (int i = 0; i < kStages; ++i) {
      v_full[i].init(1);
      v_empty[i].init(kBuild.transposers);
    }
  }
};

/// Of warps that have different keys of a tile: nothing.
template <AttentionBuild kBuild>
struct AttentionMerge {};
/// What each has found, and the sums of half of them, to which the others add theirs.
template <AttentionBuild kBuild>
  requires(kBuild.crosses())
struct AttentionMerge<kBuild> {
  static constexpr int kWarps = kBuild.consumer_warps(),
                       kOfWarp = kBuild.across * kBuild.value_dims;
  struct alignas(16) Found {
    float high, lifted, total;  // as AttentionAcross has them
  };

  alignas(16) float sums[kWarps / 2][kOfWarp];
  Found found[2][kWarps][kBuild.across];  // of every other tile
};

template <class T, AttentionBuild kBuild>
struct AttentionBlock {
  static constexpr int kDims = kBuild.dims, kValueDims = kBuild.value_dims;
  static constexpr int kKeys = kBuild.keys, kStages = kBuild.stages;
  static constexpr int kConsumers = kBuild.consumers, kQueryBuffers = kBuild.query_buffers();
  static constexpr bool kParts = kBuild.parts();
  static constexpr int kRows = kBuild.rows(), kRowBytes = 128;
  static constexpr int kChunk = kRowBytes / kBuild.bytes();  // columns in 128 bytes
  static constexpr int kChunks = kBuild.chunks(), kValueChunks = kBuild.value_chunks();
  static constexpr int kChunkBytes = kKeys * kRowBytes, kQueryChunkBytes = kRows * kRowBytes;
  // Of keys and values as they arrive.
  static constexpr int kBoxRowBytes = kBuild.box_row_bytes(), kBoxBytes = kKeys * kBoxRowBytes;
  static constexpr int kBoxColumns = kBoxRowBytes / kBuild.loaded_bytes();
  static constexpr int kKeyBoxes = (kDims + kBoxColumns - 1) / kBoxColumns,
                       kValueBoxes = (kValueDims + kBoxColumns - 1) / kBoxColumns;

  static constexpr bool kWidens = kBuild.widens(), kTransposes = kBuild.transposes();
  static constexpr bool kCrosses = kBuild.crosses();
  static_assert(sizeof(T) == kBuild.bytes());
  // Arrivals that make a block full.
  static constexpr int kKeyFillers = kWidens ? 4 : 1,
                       kValueFillers = kWidens || kTransposes ? kBuild.helpers() : 1;

  static constexpr int kWarpgroup = 128;
  // Threads for each arrival that empties a block of keys. wgmma reads for a whole warpgroup, but a
  // block's scales and mark are read by threads: one warp may have them when another does not yet.
  static constexpr int kKeyReaders = kWidens || kCrosses || kBuild.skips ? 32 : kWarpgroup;
  static constexpr int kOtherReaders = kCrosses ? 32 : kWarpgroup;  // of queries and values
  static constexpr int kConsumerThreads = 32 * kBuild.consumer_warps();

  // Two warps load.
  using Tiles = AttentionTileRing<kBuild.consumer_warps() + 2 + kBuild.helpers()>;

  struct alignas(1024) Shared {
    char k[kStages][kBuild.key_bytes()];
    char v[kStages][kBuild.value_bytes()];
    char q[kQueryBuffers][kConsumers][kBuild.query_bytes()];
    AttentionNarrowBlocks<kBuild> narrow;
    AttentionMerge<kBuild> merge;
    Tiles tiles;
    AttentionMark marks[kStages];  // of the blocks of keys, where some are skipped
    tile::cuda::Mbarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    tile::cuda::Mbarrier q_full[kQueryBuffers][kConsumers], q_empty[kQueryBuffers][kConsumers];
    tile::cuda::Mbarrier tail_full;
  };
  static_assert(sizeof(Shared) <= kBuild.shared_bytes());

  using Position = tile::cuda::RingPosition<kStages>;
  using LoadPosition = tile::cuda::RingPosition<kWidens ? kBuild.narrow_stages : kStages>;
  using QueryBuffer = tile::cuda::RingPosition<kQueryBuffers>;

  TW_PTX static void init(Shared& shared) {
    for (int i = 0; i < kStages; ++i) {
      shared.k_full[i].init(kKeyFillers);
      shared.v_full[i].init(kValueFillers);
      shared.k_empty[i].init(kConsumerThreads / kKeyReaders);
      shared.v_empty[i].init(kConsumerThreads / kOtherReaders);
    }
    for (int i = 0; i < kQueryBuffers; ++i)
      for (int c = 0; c < kConsumers; ++c) {
        shared.q_full[i][c].init(1);
        shared.q_empty[i][c].init(kConsumerThreads / kOtherReaders / kConsumers);
      }
    shared.narrow.init();
    shared.tiles.init();
    shared.tail_full.init(1);
    tile::cuda::fence_barrier_init();
  }
};

}  // namespace tw::kernels
