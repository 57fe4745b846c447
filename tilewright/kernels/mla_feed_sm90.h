// The first warpgroup of a block of latent attention on Hopper: a warp for each block of a pair.
// One lane loads a block that is one box; where pages are smaller than blocks, a lane each box.
// Keys of smaller pages than that are gathered (mla_gather_sm90.h), those of 8 bits widened
// (mla_widen_sm90.h).
#pragma once

#include "tilewright/kernels/attention_line_sm90.h"
#include "tilewright/kernels/mla_gather_sm90.h"
#include "tilewright/kernels/mla_widen_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/tma.h"

namespace tw::kernels {

template <class T, class U, MlaBuild kBuild>
struct MlaFeed : MlaBlock<T, kBuild> {
  using Block = MlaBlock<T, kBuild>;
  using Block::kKeys, Block::kPieces, Block::kRotated, Block::kHalfPieces, Block::nth_piece;
  using Block::kRows, Block::kRowBytes;
  using typename Block::Shared;
  using typename Block::Tiles;
  using Tile = AttentionTile;
  static constexpr bool kWidens = sizeof(U) == 1;

  const MlaArguments<T, U>& given;

  TW_PTX void operator()(Shared& shared) const {
    const int warp = tile::cuda::uniform(int(threadIdx.x) / 32);
    if constexpr (kWidens) {
      load<true>(shared, warp);
    } else {
      if (given.gathers())
        load<true>(shared, warp);
      else if (warp < 2)
        load<false>(shared, warp);
    }
  }

 private:
  template <bool kGathers>
  TW_PTX void load(Shared& shared, int warp) const {
    const int buffer = warp % 2;
    typename Tiles::Position at;
    uint32_t phase = 0, q_phase = 0, tail_phase = 0;
    put_line(shared.lines[warp], AttentionLine(given, kRows / given.pack, kKeys));
    for (bool more = true; more; at.next()) {
      Tile tile;
      more = next(shared.lines[warp], tile, warp == 0);
      if (warp == 0) shared.tiles.put(at, tile);
      if (tile.empty()) continue;
      if (warp == 0) load_queries(shared, tile, q_phase);
      if constexpr (kWidens)
        MlaWiden<T, U, kBuild>{{}, given}.load_tile(shared, tile, phase);
      else if constexpr (kGathers)
        MlaGather<T, kBuild>{{}, given}.load_tile(shared, tile, phase);
      else
        load_tile(shared, buffer, tile, phase, tail_phase);
    }
  }
  /// What a line remembers is in shared memory meanwhile: loading leaves it no registers.
  TW_PTX bool next(AttentionLine& kept, Tile& tile, bool leaves) const {
    AttentionLine line = kept;
    __syncwarp();
    const bool more = line.next(given, kRows / given.pack, kKeys, tile);
    if (leaves) line.leave(given, tile);
    put_line(kept, line);
    return more;
  }
  TW_PTX static void put_line(AttentionLine& kept, const AttentionLine& line) {
    if (lane() == 0) kept = line;
    __syncwarp();
  }

  /// The blocks of a tile that go into one of the buffers.
  TW_PTX void load_tile(Shared& shared, int buffer, const Tile& tile, uint32_t& phase,
                        uint32_t& tail_phase) const {
    int block = tile.last_block - 1 - buffer;
    const int head = tile::cuda::uniform(tile.head / given.heads_per_kv);
    // Pages are looked up ahead of what they are for: that takes long.
    int page = find_page(tile, block), next = find_page(tile, block - 2);
    for (; block >= tile.first_block; block -= 2) {
      const int further = find_page(tile, block - 4);
      load_keys(shared, buffer, phase, tail_phase, tile, head, block, page);
      if (tile.leads && block - 2 >= tile.first_block) prefetch_keys(tile, head, block - 2, next);
      phase ^= 1;
      page = next;
      next = further;
    }
  }

  /// Of the box of a block that has the lane's number.
  TW_PTX int find_page(const Tile& tile, int block) const {
    const int box = lane() * given.box_keys, key = block * kKeys + box;
    const bool exists = given.table && box < kKeys && block >= tile.first_block;
    return exists && key < tile.kv_len ? given.table(tile.batch, key / given.page_keys) : 0;
  }

  TW_PTX void load_queries(Shared& shared, const Tile& tile, uint32_t& phase) const {
    using namespace tile::cuda;
    if (elect_one()) {
      shared.q_empty.wait(phase ^ 1);
      shared.q_full.arrive_expect(kRows / given.pack * given.pack * kRowBytes * kPieces);
      for (int i = 0; i < kPieces; ++i)
        load_box(shared.q[i], i == kRotated ? given.q_pe : given.q, shared.q_full, column_of(i), 0,
                 tile.q_base + tile.first_query, tile.head, tile.q_outer);
    }
    __syncwarp();
    phase ^= 1;
  }

  /// A block in the order in which its consumer reads it; `page` is that of the lane's box.
  TW_PTX void load_keys(Shared& shared, int buffer, uint32_t phase, uint32_t& tail_phase,
                        const Tile& tile, int head, int block, int page) const {
    using namespace tile::cuda;
    const int rest = tile.kv_len - block * kKeys, keys = rest < kKeys ? rest : kKeys;
    const bool tail = keys < kKeys && given.shares_memory();
    const int boxes =
        keys == kKeys ? kKeys / given.box_keys : (keys + given.box_keys - 1) / given.box_keys;
    const int bytes = boxes * given.box_keys * kRowBytes;
    const int row = box_row(tile, block);
    const int outer = given.table ? page : tile.kv_outer;
    if (boxes == 1 && !tail)
      return load_box_of_keys(shared, buffer, phase, bytes, uniform(row), head, uniform(outer));
    for (int i = 0; i < kPieces; ++i) {
      const int piece = nth_piece(buffer, i);
      if (i == 0) shared.k_empty[buffer][0].wait(phase ^ 1);
      if (i == kHalfPieces) shared.k_empty[buffer][1].wait(phase ^ 1);
      Mbarrier& full = tail ? shared.tail_full[buffer] : shared.k_full[buffer][piece];
      if (lane() == 0 && (!tail || i == 0)) full.arrive_expect(tail ? kPieces * bytes : bytes);
      if (lane() < boxes)
        load_box(shared.k[buffer][piece] + lane() * given.box_keys * kRowBytes, map_of(piece), full,
                 column_of(piece), row, head, outer);
      __syncwarp();
    }
    if (!tail) return;
    // Values after the last key are not the sequence's: zero times what lies there may be NaN.
    shared.tail_full[buffer].wait(tail_phase);
    tail_phase ^= 1;
    const int count = (kKeys - keys) * (kRowBytes / 16);
    TW_NO_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) TW_NO_UNROLL
    for (int i = lane(); i < count; i += 32)
      reinterpret_cast<uint4*>(shared.k[buffer][piece] + keys * kRowBytes)[i] = {0, 0, 0, 0};
    fence_async_shared();
    __syncwarp();
    if (elect_one())
      for (int piece = 0; piece < kPieces; ++piece) shared.k_full[buffer][piece].arrive();
    __syncwarp();
  }

  /// A block that is one box: what lies between one piece's load and the next is what the consumers
  /// wait for.
  TW_PTX void load_box_of_keys(Shared& shared, int buffer, uint32_t phase, int bytes, int row,
                               int head, int outer) const {
    using namespace tile::cuda;
    if (elect_one()) {
      TW_UNROLL
      for (int i = 0; i < kPieces; ++i) {
        const int piece = nth_piece(buffer, i);
        if (i == 0) shared.k_empty[buffer][0].wait(phase ^ 1);
        if (i == kHalfPieces) shared.k_empty[buffer][1].wait(phase ^ 1);
        Mbarrier& full = shared.k_full[buffer][piece];
        full.arrive_expect(bytes);
        load_box(shared.k[buffer][piece], map_of(piece), full, column_of(piece), row, head, outer);
      }
    }
    __syncwarp();
  }

  /// Into L2, a block that is loaded later.
  TW_PTX void prefetch_keys(const Tile& tile, int head, int block, int page) const {
    const int row = box_row(tile, block);
    const int outer = given.table ? page : tile.kv_outer;
    if (given.box_keys == kKeys) {
      const int first = tile::cuda::uniform(row), from = tile::cuda::uniform(outer);
      if (tile::cuda::elect_one()) {
        TW_UNROLL
        for (int i = 0; i < kPieces; ++i)
          tile::cuda::prefetch_box(map_of(i), column_of(i), first, head, from);
      }
    } else if (lane() * given.box_keys < kKeys)
      for (int i = 0; i < kPieces; ++i)
        tile::cuda::prefetch_box(map_of(i), column_of(i), row, head, outer);
    __syncwarp();
  }
  /// The first row of the lane's box.
  TW_PTX int box_row(const Tile& tile, int block) const {
    const int row = block * kKeys + lane() * given.box_keys;
    return given.table ? row % given.page_keys : tile.kv_base + row;
  }
  TW_PTX const tile::cuda::TensorMap& map_of(int piece) const {
    return piece == kRotated ? given.k_pe : given.k;
  }
  TW_PTX static int column_of(int piece) {
    return piece == kRotated ? 0 : piece * MlaBuild::kColumns;
  }
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }
};

}  // namespace tw::kernels
