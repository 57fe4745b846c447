// The warpgroup that widens keys and values of 8 bits, for tensor cores that multiply 16: from the
// rows that arrive to the swizzled blocks that consumers read, values times their scales. A thread
// has 16 numbers at a time.
#pragma once

#include "tilewright/kernels/attention_block_sm90.h"
#include "tilewright/kernels/attention_seen_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/widen.h"

namespace tw::kernels {

template <class T, class U, AttentionBuild kBuild>
struct AttentionWiden : AttentionBlock<T, kBuild> {
  using Block = AttentionBlock<T, kBuild>;
  using Arguments = AttentionArguments<T>;
  using Block::kChunk, Block::kChunkBytes, Block::kDims, Block::kKeys, Block::kRowBytes;
  using typename Block::LoadPosition;
  using typename Block::Position;
  using typename Block::Shared;
  static constexpr int kThreads = 128, kBarrier = 5;
  static_assert(kKeys <= kThreads);  // a thread looks up the scales of a key

  const Arguments& given;

  TW_PTX explicit AttentionWiden(const Arguments& arguments) : given(arguments) {}

  TW_PTX void operator()(Shared& shared) const {
    LoadPosition from;
    Position to;
    int buffer = 0;
    shared.tiles.for_each([&](const AttentionTile& tile) {
      AttentionBlocks<kBuild> blocks(given, tile);
      Scales next = scales_of(tile, blocks.here().block);
      while (!blocks.done()) {
        const AttentionMark mark = blocks.here();
        blocks.next();
        float* const v_scales = shared.narrow.v_scales[buffer];
        shared.k_empty[to.index].wait(to.phase ^ 1);
        if (thread() < kKeys) {
          shared.narrow.k_scales[to.index][thread()] = next.k;
          v_scales[thread()] = next.v;
        }
        if (kBuild.skips && thread() == 0) shared.marks[to.index] = mark;
        tile::cuda::sync_named(kBarrier, kThreads);
        if (!blocks.done()) next = scales_of(tile, blocks.here().block);
        const int keys =
            tile.kv_len - mark.block * kKeys;  // that there are, from the block's first on
        widen<false>(shared.narrow.k[from.index], shared.narrow.k_full[from.index],
                     shared.narrow.k_empty[from.index], from.phase, nullptr, keys,
                     shared.k[to.index], shared.k_full[to.index]);
        shared.v_empty[to.index].wait(to.phase ^ 1);
        widen<true>(shared.narrow.v[from.index], shared.narrow.v_full[from.index],
                    shared.narrow.v_empty[from.index], from.phase, v_scales, keys,
                    shared.v[to.index], shared.v_full[to.index]);
        from.next();
        to.next();
        buffer ^= 1;
      }
    });
  }

 private:
  using Barrier = tile::cuda::Mbarrier;
  struct Scales {
    float k = 1, v = 1;
  };

  TW_PTX static int thread() { return int(threadIdx.x) % kThreads; }

  /// Of the thread's key.
  TW_PTX Scales scales_of(const AttentionTile& tile, int block) const {
    Scales out;
    const int key = block * kKeys + thread();
    if (thread() >= kKeys || key >= tile.kv_len) return out;
    int row = tile.kv_base + key, outer = tile.kv_outer;
    if (given.table) {
      const int page = key / given.page_keys;
      row = key - page * given.page_keys;
      outer = given.table(tile.batch, page);
    }
    const int head = tile.head / given.heads_per_kv;
    return {given.k_scale.at(outer, row, head), given.v_scale.at(outer, row, head)};
  }

  /// Rows from `keys` on are not the sequence's: zeros. kScaled: times `scales`. All is read before
  /// any is written, so that nothing waits for what is done in between.
  template <bool kScaled>
  TW_PTX static void widen(const char* from, Barrier& from_full, Barrier& from_empty,
                           uint32_t from_phase, const float* scales, int keys, char* to,
                           Barrier& to_full) {
    constexpr int kOfRow = kDims / 16, kEach = kKeys * kOfRow / kThreads;
    uint4 narrow[kEach];
    float scale[kEach];
    from_full.wait(from_phase);
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kThreads + thread(), row = at / kOfRow;
      narrow[i] = row < keys ? reinterpret_cast<const uint4*>(from)[at] : uint4{};
      scale[i] = kScaled ? scales[row] : 1.0f;
    }
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kThreads + thread(), row = at / kOfRow, column = at % kOfRow * 16;
      uint4 wide[2];
      tile::cuda::widen16<T, U, kScaled>(narrow[i], scale[i], wide);
      char* const line = to + column / kChunk * kChunkBytes + row * kRowBytes;
      // Every other chunk's halves the other way round: the eight threads that write at a time
      // reach all banks.
      const int unit = column % kChunk / 8, turned = column / kChunk % 2;
      TW_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int which = half ^ turned;
        *reinterpret_cast<uint4*>(line + ((unit + which) ^ row % 8) * 16) =
            which == 0 ? wide[0] : wide[1];
      }
    }
    tile::cuda::fence_async_shared();
    __syncwarp();
    if (thread() % 32 == 0) {
      to_full.arrive();
      from_empty.arrive();
    }
    __syncwarp();
  }
};

}  // namespace tw::kernels
