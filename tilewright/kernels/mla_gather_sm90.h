// Keys of latent attention on Hopper that a block_table picks one by one, or a few at a time: too
// small for TMA, whose boxes of one row take 27 cycles each. All warps copy each block, a lane 16
// bytes of a row and eight lanes 128, and arrive at the barrier of the last piece of a half with
// what they copied so far. Copies write as ordinary stores do: consumers fence before wgmma reads.
#pragma once

#include "tilewright/kernels/mla_block_sm90.h"
#include "tilewright/tile/cuda/copy_async.h"

namespace tw::kernels {

template <class T, MlaBuild kBuild>
struct MlaGather : MlaBlock<T, kBuild> {
  using Block = MlaBlock<T, kBuild>;
  using Block::kKeys, Block::kPieces, Block::kRotated, Block::kHalfPieces, Block::nth_piece;
  using Block::kRowBytes, Block::kGatherWarps;
  using typename Block::Shared;
  using Tile = AttentionTile;
  static constexpr int kChunk = 16 / int(sizeof(T)), kRowLanes = kRowBytes / 16;
  static constexpr int kStep = 32 / kRowLanes * kGatherWarps;  // rows that all warps copy at a time
  static constexpr int kLaneRows = kKeys / kStep;              // of a block
  static_assert(kStep % 8 == 0, "a lane's rows are swizzled alike");

  const MlaArguments<T>& given;

  /// The blocks of a tile; `phases` has a bit for each buffer.
  TW_PTX void load_tile(Shared& shared, const Tile& tile, uint32_t& phases) const {
    const int head = tile.head / given.heads_per_kv;
    int block = tile.last_block - 1, buffer = 0;
    Rows rows = find(tile, block);
    for (; block >= tile.first_block; --block, buffer ^= 1) {
      const Rows next = find(tile, block - 1);
      copy(shared, buffer, phases >> buffer & 1, rows, head);
      if (tile.leads) prefetch(next, head);
      phases ^= 1u << buffer;
      rows = next;
    }
  }

 private:
  /// The pages of a lane's rows; -1 where there is none.
  struct Rows {
    int page[kLaneRows];
  };

  TW_PTX Rows find(const Tile& tile, int block) const {
    Rows out;
    TW_UNROLL
    for (int i = 0; i < kLaneRows; ++i) {
      const int key = block * kKeys + row(i);
      const bool exists = block >= tile.first_block && key < tile.kv_len;
      out.page[i] = exists ? given.table(tile.batch, key / given.page_keys) : -1;
    }
    return out;
  }

  /// A block in the order in which its consumer reads it; zeros for what does not exist.
  TW_PTX void copy(Shared& shared, int buffer, uint32_t phase, const Rows& rows, int head) const {
    const uint4* from[kLaneRows];
    find(given.latent, rows, head, from);
    TW_NO_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int first = nth_piece(buffer, half * kHalfPieces);
      const int left = given.latent.dims - first * MlaBuild::kColumns;
      shared.k_empty[buffer][half].wait(phase ^ 1);
      TW_UNROLL
      for (int i = 0; i < kHalfPieces; ++i)
        copy(shared.k[buffer][first + i], from, (first + i) * kRowLanes, rows,
             left - i * MlaBuild::kColumns);
      shared.k_full[buffer][Block::gathered_with(first)].arrive_after_copies();
    }
    find(given.rotated, rows, head, from);
    copy(shared.k[buffer][kRotated], from, 0, rows, given.rotated.dims);
    shared.k_full[buffer][kRotated].arrive_after_copies();
  }
  /// A piece that begins `skip` lanes' parts into the rows, which have `left` dims from there on.
  TW_PTX static void copy(char* piece, const uint4* const (&from)[kLaneRows], int skip,
                          const Rows& rows, int left) {
    left = (left - lane() * kChunk) * int(sizeof(T));
    const int bytes = left < 0 ? 0 : left < 16 ? left : 16;
    char* const to = piece + row(0) * kRowBytes + (lane() ^ row(0) % 8) * 16;
    TW_UNROLL
    for (int r = 0; r < kLaneRows; ++r)
      tile::cuda::copy_async_or_zero<16>(to + r * kStep * kRowBytes, from[r] + skip,
                                         rows.page[r] >= 0 ? bytes : 0);
  }
  /// Where a lane's parts of rows begin.
  TW_PTX void find(const MlaRows<T>& keys, const Rows& rows, int head,
                   const uint4* (&out)[kLaneRows]) const {
    TW_UNROLL
    for (int r = 0; r < kLaneRows; ++r)
      out[r] = at(keys, rows.page[r] >= 0 ? rows.page[r] : 0, r, head) + lane();
  }

  /// Into L2, what is copied next.
  TW_PTX void prefetch(const Rows& rows, int head) const {
    if (lane() == 0) prefetch(given.latent, rows, head);
    if (lane() == 1) prefetch(given.rotated, rows, head);
  }
  TW_PTX void prefetch(const MlaRows<T>& from, const Rows& rows, int head) const {
    TW_UNROLL
    for (int r = 0; r < kLaneRows; ++r)
      if (rows.page[r] >= 0)
        tile::cuda::prefetch_l2(at(from, rows.page[r], r, head),
                                from.dims * int(sizeof(T)) / 16 * 16);
  }

  TW_PTX const uint4* at(const MlaRows<T>& from, int page, int r, int head) const {
    return from.template at<uint4>(page, row(r) & (given.page_keys - 1), head);
  }
  /// Of those that share a row.
  TW_PTX static int lane() { return int(threadIdx.x) % kRowLanes; }
  TW_PTX static int row(int i) { return i * kStep + int(threadIdx.x) / kRowLanes; }
};

}  // namespace tw::kernels
