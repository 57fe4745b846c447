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

template <class T, AttentionBuild kBuild>
struct AttentionBlock {
  static constexpr int kDims = kBuild.dims, kValueDims = kBuild.value_dims;
  static constexpr int kKeys = kBuild.keys, kStages = kBuild.stages;
  static constexpr int kConsumers = kBuild.consumers, kQueryBuffers = kBuild.query_buffers();
  static constexpr bool kParts = kBuild.parts();
  static constexpr int kRows = 64, kRowBytes = 128;
  static constexpr int kChunk = kRowBytes / kBuild.bytes();  // columns in 128 bytes
  static constexpr int kChunks = kBuild.chunks(), kValueChunks = kBuild.value_chunks();
  static constexpr int kChunkBytes = kKeys * kRowBytes, kQueryChunkBytes = kRows * kRowBytes;

  static constexpr bool kWidens = kBuild.widens(), kTransposes = kBuild.transposes();
  static_assert(sizeof(T) == kBuild.bytes());
  // Arrivals that make a block full.
  static constexpr int kKeyFillers = kWidens ? 4 : 1,
                       kValueFillers = kWidens || kTransposes ? kBuild.helpers() : 1;

  static constexpr int kWarpgroup = 128;
  // Threads for each arrival that empties a block of keys. wgmma reads for a whole warpgroup, but a
  // block's scales and mark are read by threads: one warp may have them when another does not yet.
  static constexpr int kKeyReaders = kWidens || kBuild.skips ? 32 : kWarpgroup;

  using Tiles = AttentionTileRing<4 * kConsumers + 2 + kBuild.helpers()>;  // two warps load

  struct alignas(1024) Shared {
    char k[kStages][kBuild.key_bytes()];
    char v[kStages][kBuild.value_bytes()];
    char q[kQueryBuffers][kConsumers][kBuild.query_bytes()];
    AttentionNarrowBlocks<kBuild> narrow;
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
      shared.k_empty[i].init(kConsumers * kWarpgroup / kKeyReaders);
      shared.v_empty[i].init(kConsumers);
    }
    for (int i = 0; i < kQueryBuffers; ++i)
      for (int c = 0; c < kConsumers; ++c) {
        shared.q_full[i][c].init(1);
        shared.q_empty[i][c].init(1);
      }
    shared.narrow.init();
    shared.tiles.init();
    shared.tail_full.init(1);
    tile::cuda::fence_barrier_init();
  }
};

}  // namespace tw::kernels
