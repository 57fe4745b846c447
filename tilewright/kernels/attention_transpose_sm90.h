// The warps that transpose blocks of values of 8 bits, for tensor cores that take them only with
// keys along the rows: from swizzled rows of dims to swizzled rows of keys.
//
// Keys change places within every 32, so that the scores of a consumer, rounded, are the left
// operand as they stand. A thread has the scores of keys 8 i + 2 q and 8 i + 2 q + 1, q = t % 4
// (tile/cuda/wgmma.h), and gives the weights of places 4 q to 4 q + 3 and 16 more
// (wgmma_fragment.h): places 4 q and 4 q + 1 are of i = 0, the next two of i = 1, and of i = 2 and
// 3 those further on. FlashAttention-3 (arXiv:2407.08608, section 3.3) transposes so, too.
#pragma once

#include "tilewright/kernels/attention_block_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/matrix.h"

namespace tw::kernels {

template <class T, AttentionBuild kBuild>
struct AttentionTranspose : AttentionBlock<T, kBuild> {
  using Block = AttentionBlock<T, kBuild>;
  using Arguments = AttentionArguments<T>;
  using Block::kChunkBytes, Block::kKeys, Block::kRowBytes, Block::kValueDims;
  using typename Block::Position;
  using typename Block::Shared;
  static constexpr int kUnit = 16;  // bytes that are swizzled as one
  static constexpr int kWarps = kBuild.transposers, kGroup = 32, kGroups = kKeys / kGroup;
  static_assert(kKeys % kGroup == 0 && kKeys <= kRowBytes && kValueDims % (kWarps * kUnit) == 0);

  const Arguments& given;

  TW_PTX explicit AttentionTranspose(const Arguments& arguments) : given(arguments) {}

  TW_PTX void operator()(Shared& shared) const {
    Position at;
    shared.tiles.for_each([&](const AttentionTile& tile) {
      for (int block = tile.last_block - 1; block >= tile.first_block; --block, at.next()) {
        const int keys = tile.kv_len - block * kKeys;  // that there are, from the block's first on
        const char* const from = shared.narrow.v[at.index];
        char* const to = shared.v[at.index];
        shared.narrow.v_full[at.index].wait(at.phase);
        shared.v_empty[at.index].wait(at.phase ^ 1);
        if (keys >= kKeys)
          transpose<false>(from, to, keys);
        else
          transpose<true>(from, to, keys);
        tile::cuda::fence_async_shared();
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
          shared.v_full[at.index].arrive();
          shared.narrow.v_empty[at.index].arrive();
        }
        __syncwarp();
      }
    });
  }

  /// A warp's share of a block. kTail: keys from `keys` on are not the sequence's: zero times what
  /// lies there may be NaN.
  template <bool kTail>
  TW_PTX static void transpose(const char* from, char* to, int keys) {
    const int warp = int(threadIdx.x) / 32 % kWarps;
#pragma unroll 1
    for (int column = warp; column < kValueDims / kUnit; column += kWarps) {
      uint32_t pairs[kGroups][4];  // of dims, of two keys each
      TW_UNROLL
      for (int i = 0; i < kGroups; ++i) load(from, column, i, pairs[i]);
      TW_UNROLL
      for (int i = 0; i < kGroups; ++i) {
        if (kTail) clear(keys - i * kGroup, pairs[i]);
        store(to, column, i, pairs[i]);
      }
    }
  }

 private:
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }

  /// Of a unit of 32 keys: in pairs[i] keys 8 i + 2 (l % 4) and the next, dims 2 (l / 4) and the
  /// next.
  TW_PTX static void load(const char* from, int column, int group, uint32_t (&pairs)[4]) {
    constexpr int kUnits = kRowBytes / kUnit;
    const int row = group * kGroup + lane(), unit = column % kUnits ^ lane() % 8;
    tile::cuda::load_matrices_transposed(
        pairs, from + column / kUnits * kChunkBytes + row * kRowBytes + unit * kUnit);
  }

  TW_PTX static void clear(int keys, uint32_t (&pairs)[4]) {
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int key = 8 * i + lane() % 4 * 2;
      if (key >= keys) pairs[i] = 0;
      if (key + 1 >= keys) pairs[i] &= 0xffffu;
    }
  }

  /// Rows are dims. Of eight that are written at a time four are even and four odd, so that they
  /// lie in all banks: the upper half of the lanes has even and odd the other way round.
  TW_PTX static void store(char* to, int column, int group, const uint32_t (&pairs)[4]) {
    constexpr uint32_t kEven = 0x6420, kOdd = 0x7531;  // bytes of two words
    const bool upper = lane() >= 16;
    const uint32_t first = upper ? kOdd : kEven, second = upper ? kEven : kOdd;
    const int matrix = lane() / 8, row = lane() % 8;
    const int dim = column * kUnit + 2 * row + (matrix % 2 ^ row / 4);
    const int unit = (2 * group + matrix / 2) ^ dim % 8;
    tile::cuda::store_matrices(
        to + dim * kRowBytes + unit * kUnit, __byte_perm(pairs[0], pairs[1], first),
        __byte_perm(pairs[0], pairs[1], second), __byte_perm(pairs[2], pairs[3], first),
        __byte_perm(pairs[2], pairs[3], second));
  }
};

}  // namespace tw::kernels
