// What keeps a block of attention on Hopper fed: a warp that deals tiles, one that loads keys and
// queries, one that loads values. All that they do in a step costs: their instructions wait for
// those of the consumers.
#pragma once

#include "tilewright/kernels/attention_block_sm90.h"
#include "tilewright/kernels/attention_keys_sm90.h"
#include "tilewright/kernels/attention_line_sm90.h"
#include "tilewright/kernels/attention_transpose_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/tma.h"

namespace tw::kernels {

template <class T, AttentionBuild kBuild>
struct AttentionFeed : AttentionBlock<T, kBuild> {
  using Block = AttentionBlock<T, kBuild>;
  using Arguments = AttentionArguments<T>;
  using Keys = AttentionKeys<Arguments, kBuild>;
  using Block::kBoxBytes, Block::kBoxColumns, Block::kBoxRowBytes, Block::kKeyBoxes;
  using Block::kChunk, Block::kChunks, Block::kChunkBytes, Block::kQueryChunkBytes;
  using Block::kConsumers, Block::kKeys, Block::kRowBytes, Block::kRows;
  using Block::kValueBoxes, Block::kValueChunks;
  using typename Block::LoadPosition;
  using typename Block::QueryBuffer;
  using typename Block::Shared;
  const Arguments& given;

  TW_PTX explicit AttentionFeed(const Arguments& arguments) : given(arguments) {}

  TW_PTX void operator()(Shared& shared) const {
    const int warp = tile::cuda::uniform(int(threadIdx.x) / 32);
    if (warp == 0) load_keys(shared);
    if (warp == 1) load_values(shared);
    if (warp == 2) deal(shared);
    if constexpr (kBuild.transposers == 1)
      if (warp == 3) AttentionTranspose<T, kBuild>{given}(shared);
  }

 private:
  TW_PTX void deal(Shared& shared) const {
    const int queries = attention_tile_queries(given, kBuild);
    if constexpr (Block::kParts)
      deal(shared, AttentionLine(given, queries, kKeys), queries);
    else
      deal(shared, AttentionWalk(given.order), queries);
  }
  template <class Walk>
  TW_PTX void deal(Shared& shared, const Walk& walk, int queries) const {
    if constexpr (kBuild.skips)
      shared.tiles.deal(AttentionTrimmed<kBuild, Walk>{walk}, given, queries, kKeys);
    else
      shared.tiles.deal(walk, given, queries, kKeys);
  }

  /// Where blocks of keys or of values are loaded to, and by whose barriers.
  template <bool kHelped>
  TW_PTX static auto& loaded(Shared& shared) {
    if constexpr (kHelped)
      return shared.narrow;
    else
      return shared;
  }

  TW_PTX void load_keys(Shared& shared) const {
    auto& to = loaded<Block::kWidens>(shared);
    LoadPosition at;
    QueryBuffer queries;
    shared.tiles.for_each([&](const AttentionTile& tile) {
      bool starts = true;
      for (Keys keys(given, tile); !keys.done(); at.next()) {
        const AttentionKeyBlock block = keys.next();
        to.k_empty[at.index].wait(at.phase ^ 1);
        if (kBuild.skips && !Block::kWidens && tile::cuda::elect_one())
          shared.marks[at.index] = block.mark;
        load_block<kKeyBoxes>(to.k[at.index], given.k, to.k_full[at.index], block,
                              given.key_overlap);
        if (starts) load_queries(shared, queries, tile);
        starts = false;
      }
    });
  }

  TW_PTX void load_values(Shared& shared) const {
    using namespace tile::cuda;
    auto& ring = loaded<(kBuild.helpers() > 0)>(shared);
    LoadPosition at;
    uint32_t tail_phase = 0;
    shared.tiles.for_each([&](const AttentionTile& tile) {
      for (Keys keys(given, tile); !keys.done(); at.next()) {
        const AttentionKeyBlock block = keys.next();
        // Who makes operands of blocks clears their tails.
        const bool tail = kBuild.helpers() == 0 && !Block::kCrosses && block.keys < kKeys &&
                          given.shares_memory();
        char* const to = ring.v[at.index];
        Mbarrier& full = ring.v_full[at.index];
        ring.v_empty[at.index].wait(at.phase ^ 1);
        load_block<kValueBoxes>(to, given.v, tail ? shared.tail_full : full, block,
                                given.value_overlap);
        if (!tail) continue;
        shared.tail_full.wait(tail_phase);
        tail_phase ^= 1;
        clear_rows(to, block.keys);
        __syncwarp();
        if (elect_one()) full.arrive();
      }
    });
  }

  TW_PTX void load_queries(Shared& shared, QueryBuffer& at, const AttentionTile& tile) const {
    using namespace tile::cuda;
    const int queries = kRows / given.pack;
    for (int i = 0; i < kConsumers; ++i) {
      if (!elect_one()) continue;
      Mbarrier& full = shared.q_full[at.index][i];
      shared.q_empty[at.index][i].wait(at.phase ^ 1);
      full.arrive_expect(queries * given.pack * kRowBytes * kChunks);
      TW_UNROLL
      for (int c = 0; c < kChunks; ++c)
        load_box(shared.q[at.index][i] + c * kQueryChunkBytes, given.q, full,
                 column_of<kChunks, kChunk>(c, given.key_overlap), 0,
                 tile.q_base + tile.first_query + i * queries, tile.head, tile.q_outer);
    }
    at.next();
  }
  /// Where a box of kColumns of a row that has kOfRow of them begins.
  template <int kOfRow, int kColumns>
  TW_PTX static int column_of(int box, int overlap) {
    const bool is_last = kOfRow > 1 && box == kOfRow - 1;
    return box * kColumns - (AttentionOverlap::exists(kBuild) && is_last ? overlap : 0);
  }
  template <int kOfRow>
  TW_PTX void load_block(char* smem, const tile::cuda::TensorMap& map, tile::cuda::Mbarrier& full,
                         const AttentionKeyBlock& block, int overlap) const {
    using namespace tile::cuda;
    const int box_bytes = given.box_keys * kBoxRowBytes;
    if (elect_one()) full.arrive_expect(block.boxes * box_bytes * kOfRow);
#pragma unroll 1
    for (int i = 0; i < block.boxes; ++i) {
      const int outer = __shfl_sync(0xffffffffu, block.outer, i);
      if (!elect_one()) continue;
      TW_UNROLL
      for (int c = 0; c < kOfRow; ++c)
        load_box(smem + c * kBoxBytes + i * box_bytes, map, full,
                 column_of<kOfRow, kBoxColumns>(c, overlap), block.row, block.head, outer);
    }
    __syncwarp();
  }

  /// Values after the last key are not the sequence's: zero times what lies there may be NaN.
  TW_PTX static void clear_rows(char* smem, int first) {
    const int count = (kKeys - first) * (kRowBytes / 16);
    for (int c = 0; c < kValueChunks; ++c)
      for (int i = int(threadIdx.x) % 32; i < count; i += 32)
        reinterpret_cast<uint4*>(smem + c * kChunkBytes + first * kRowBytes)[i] = {0, 0, 0, 0};
    tile::cuda::fence_async_shared();
  }
};

}  // namespace tw::kernels
