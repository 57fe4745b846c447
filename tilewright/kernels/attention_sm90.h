// Attention on Hopper, after FlashAttention-3 (arXiv:2407.08608).
//
// A block is one producer warp, which keeps rings of blocks of keys and of values full by TMA, and
// one to three consumer warpgroups of 64 rows each. A consumer issues the scores of one block of
// keys, then the weighted values of the block before, and computes the weights of the first while
// the second runs; weights never leave registers. Consumers take turns with the tensor cores, so
// that one computes weights while the other multiplies. Blocks of keys are walked from the last:
// what a causal mask cuts comes first.
//
// Rows of a tile are queries, or queries times the heads that share keys. What a box has outside
// its tensor reads as zero and is not written.
#pragma once

#include "tilewright/kernels/attention_store_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/tma.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

template <class T, AttentionBuild kBuild>
struct AttentionSm90 {
  static constexpr int kDims = kBuild.dims, kKeys = kBuild.keys, kStages = kBuild.stages;
  static constexpr int kConsumers = kBuild.consumers, kThreads = kBuild.threads();
  static constexpr int kWarpgroup = 128, kRowBytes = 128, kRows = 64;
  static constexpr int kChunk = 64, kChunks = kDims / kChunk;  // columns in 128 bytes
  static constexpr int kChunkBytes = kKeys * kRowBytes, kQueryChunkBytes = kRows * kRowBytes;
  static constexpr int kTileSlots = 4;
  static constexpr int kTurn = 1;  // the named barriers of the consumers' turns

  using Arguments = AttentionArguments<T>;
  using Tile = AttentionTile;
  const Arguments& given;

  struct alignas(1024) Shared {
    char k[kStages][kBuild.block_bytes()];
    char v[kStages][kBuild.block_bytes()];
    char q[kConsumers][kBuild.query_bytes()];
    Tile tiles[kTileSlots];  // what the producer has loaded, or is about to
    tile::cuda::Mbarrier tile_full[kTileSlots], tile_empty[kTileSlots];
    tile::cuda::Mbarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    tile::cuda::Mbarrier q_full[kConsumers], q_empty[kConsumers], tail_full;
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
  using TileSlot = Ring<kTileSlots>;

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    if (threadIdx.x == 0) {
      prefetch(given.q);
      prefetch(given.k);
      prefetch(given.v);
      for (int i = 0; i < kStages; ++i) {
        shared.k_full[i].init(1);
        shared.v_full[i].init(1);
        shared.k_empty[i].init(kConsumers);
        shared.v_empty[i].init(kConsumers);
      }
      for (int i = 0; i < kConsumers; ++i) {
        shared.q_full[i].init(1);
        shared.q_empty[i].init(1);
      }
      for (int i = 0; i < kTileSlots; ++i) {
        shared.tile_full[i].init(1);
        shared.tile_empty[i].init(kConsumers);
      }
      shared.tail_full.init(1);
      fence_barrier_init();
    }
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<kBuild.producer_registers()>();
      if (threadIdx.x < 32) produce(shared);
    } else {
      take_registers<kBuild.consumer_registers()>();
      consume(shared, warpgroup - 1);
    }
  }

  // ---- the producer: one warp, of which one thread issues

  TW_PTX void produce(Shared& shared) const {
    Position keys, values;
    TileSlot slot;
    uint32_t phase = 0, tail_phase = 0;
    Tile tile;
    AttentionWalk walk(given.order);
    for (bool more = true; more; slot.next()) {
      more = walk.next(given, kConsumers * (kRows / given.pack), kKeys, tile);
      publish(shared, slot, tile);
      if (tile.empty()) continue;
      int block = tile.last_block - 1, page = find_page(tile, block);
      int next_page =
          find_page(tile, block - 1);  // a block ahead: it takes as long as to weigh one
      load_keys(shared, keys, tile, block, page);
      load_queries(shared, tile, phase);
      while (--block >= tile.first_block) {
        const int page_before = page;
        page = next_page;
        next_page = find_page(tile, block - 1);
        load_keys(shared, keys, tile, block, page);
        load_values(shared, values, tail_phase, tile, block + 1, page_before);
      }
      load_values(shared, values, tail_phase, tile, tile.first_block, page);
      phase ^= 1;
    }
  }

  /// Of the box of a block that has the lane's number.
  TW_PTX int find_page(const Tile& tile, int block) const {
    const int key = block * kKeys + int(threadIdx.x) * given.box_keys;
    const bool exists = given.table && int(threadIdx.x) * given.box_keys < kKeys;
    return exists && block >= tile.first_block && key < tile.kv_len
               ? given.table(tile.batch, key / given.page_keys)
               : 0;
  }

  TW_PTX static void publish(Shared& shared, const TileSlot& at, const Tile& tile) {
    if (tile::cuda::elect_one()) {
      shared.tile_empty[at.index].wait(at.phase ^ 1);
      shared.tiles[at.index] = tile;
      shared.tile_full[at.index].arrive();
    }
    __syncwarp();
  }

  TW_PTX void load_queries(Shared& shared, const Tile& tile, uint32_t phase) const {
    using namespace tile::cuda;
    const int queries = kRows / given.pack;
    for (int i = 0; i < kConsumers; ++i) {
      if (!elect_one()) continue;
      shared.q_empty[i].wait(phase ^ 1);
      shared.q_full[i].arrive_expect(queries * given.pack * kRowBytes * kChunks);
      TW_UNROLL
      for (int c = 0; c < kChunks; ++c)
        load_box(shared.q[i] + c * kQueryChunkBytes, given.q, shared.q_full[i], c * kChunk, 0,
                 tile.q_base + tile.first_query + i * queries, tile.head, tile.q_outer);
    }
  }
  TW_PTX void load_keys(Shared& shared, Position& at, const Tile& tile, int block, int page) const {
    shared.k_empty[at.index].wait(at.phase ^ 1);
    load_block(shared.k[at.index], given.k, shared.k_full[at.index], tile, block, page);
    at.next();
  }
  TW_PTX void load_values(Shared& shared, Position& at, uint32_t& tail_phase, const Tile& tile,
                          int block, int page) const {
    using namespace tile::cuda;
    const int keys = tile.kv_len - block * kKeys;
    const bool tail = keys < kKeys && given.shares_memory();
    Mbarrier& full = tail ? shared.tail_full : shared.v_full[at.index];
    shared.v_empty[at.index].wait(at.phase ^ 1);
    load_block(shared.v[at.index], given.v, full, tile, block, page);
    if (tail) {
      full.wait(tail_phase);
      tail_phase ^= 1;
      clear_rows(shared.v[at.index], keys);
      __syncwarp();
      if (elect_one()) shared.v_full[at.index].arrive();
    }
    at.next();
  }

  /// The boxes of a block that hold keys of the sequence; `page` is that of the lane's box.
  TW_PTX void load_block(char* smem, const tile::cuda::TensorMap& map, tile::cuda::Mbarrier& full,
                         const Tile& tile, int block, int page) const {
    using namespace tile::cuda;
    const int first = block * kKeys, head = tile.head / given.heads_per_kv;
    const int rest = tile.kv_len - first, keys = rest < kKeys ? rest : kKeys;
    const int box = given.box_keys, boxes = (keys + box - 1) / box;
    if (elect_one()) full.arrive_expect(boxes * box * kRowBytes * kChunks);
    for (int i = 0; i < boxes; ++i) {
      const int row = first + i * box, of_box = __shfl_sync(0xffffffffu, page, i);
      if (!elect_one()) continue;
      const int at = given.table ? row % given.page_keys : tile.kv_base + row;
      TW_UNROLL
      for (int c = 0; c < kChunks; ++c)
        load_box(smem + c * kChunkBytes + i * box * kRowBytes, map, full, c * kChunk, at, head,
                 given.table ? of_box : tile.kv_outer);
    }
    __syncwarp();
  }

  /// Values after the last key are not the sequence's: zero times what lies there may be NaN.
  TW_PTX static void clear_rows(char* smem, int first) {
    const int count = (kKeys - first) * (kRowBytes / 16);
    for (int c = 0; c < kChunks; ++c)
      for (int i = int(threadIdx.x); i < count; i += 32)
        reinterpret_cast<uint4*>(smem + c * kChunkBytes + first * kRowBytes)[i] = {0, 0, 0, 0};
    tile::cuda::fence_async_shared();
  }

  // ---- the consumers

  using Scores = float[kKeys / 2];
  using Weights = uint32_t[kKeys / 4];
  using Sums = float[kDims / 2];

  TW_PTX void consume(Shared& shared, int consumer) const {
    Position keys, values;
    TileSlot slot;
    uint32_t phase = 0;
    if (kBuild.turns && consumer == kConsumers - 1) pass_turn(consumer);
    for (;; slot.next()) {
      shared.tile_full[slot.index].wait(slot.phase);
      const Tile& tile = shared.tiles[slot.index];
      if (tile.ends) return;
      const AttentionStore<T, kDims> store{given, tile, consumer};
      if (tile.empty()) {
        store.put_nothing();
      } else {
        AttentionRowState state;
        Sums sums;
        shared.q_full[consumer].wait(phase);
        phase ^= 1;
        attend(shared, keys, values, tile, consumer, state, sums);
        store.put(state, sums);
      }
      release(shared.tile_empty[slot.index]);
    }
  }

  TW_PTX void attend(Shared& shared, Position& keys, Position& values, const Tile& tile,
                     int consumer, AttentionRowState& state, Sums& sums) const {
    using namespace tile::cuda;
    const int first = tile.first_block;
    const AttentionSpan inner{tile.inner_begin, tile.inner_end};
    Scores scores;
    Weights weights;
    float keep[2];
    int block = tile.last_block - 1, started = 0;
    shared.k_full[keys.index].wait(keys.phase);
    wgmma_fence();
    multiply_keys(shared.q[consumer], shared.k[keys.index], scores);
    wgmma_commit();
    wgmma_wait<0>();
    pin(scores);
    finish_keys(shared, keys, consumer, block == first);
    weigh(tile, inner, consumer, block, scores, state, keep);
    round(scores, weights);
    while (--block >= first) {
      shared.k_full[keys.index].wait(keys.phase);
      if (kBuild.turns) sync_named(kTurn + consumer, 2 * kWarpgroup);
      pin(scores);
      wgmma_fence();
      multiply_keys(shared.q[consumer], shared.k[keys.index], scores);
      wgmma_commit();
      shared.v_full[values.index].wait(values.phase);
      pin(sums);
      wgmma_fence();
      multiply_values(weights, shared.v[values.index], sums, started);
      wgmma_commit();
      started = 1;
      if (kBuild.turns) pass_turn(consumer);
      wgmma_wait<1>();
      pin(scores);
      finish_keys(shared, keys, consumer, block == first);
      weigh(tile, inner, consumer, block, scores, state, keep);
      wgmma_wait<0>();
      pin(sums);
      release(shared.v_empty[values.index]);
      values.next();
      round(scores, weights);
      TW_UNROLL
      for (int i = 0; i < kDims / 2; ++i) sums[i] *= keep[i / 2 % 2];
    }
    shared.v_full[values.index].wait(values.phase);
    pin(sums);
    wgmma_fence();
    multiply_values(weights, shared.v[values.index], sums, started);
    wgmma_commit();
    wgmma_wait<0>();
    pin(sums);
    release(shared.v_empty[values.index]);
    values.next();
  }

  /// A block of keys has been read; so have the queries, if it was the tile's last.
  TW_PTX static void finish_keys(Shared& shared, Position& at, int consumer, bool last) {
    release(shared.k_empty[at.index]);
    at.next();
    if (last) release(shared.q_empty[consumer]);
  }

  TW_PTX static void multiply_keys(const char* q, const char* k, Scores& scores) {
    using namespace tile::cuda;
    constexpr int kSteps = kRowBytes / 32;  // of 16 dims in 128 bytes
    TW_UNROLL
    for (int c = 0; c < kChunks; ++c) TW_UNROLL
    for (int i = 0; i < kSteps; ++i)
      Wgmma<T, kKeys>::mma(scores, advance(operand(q), c * kQueryChunkBytes + i * 32),
                           advance(operand(k), c * kChunkBytes + i * 32), c + i > 0);
  }
  TW_PTX static void multiply_values(const Weights& weights, const char* v, Sums& sums,
                                     int started) {
    using namespace tile::cuda;
    TW_UNROLL
    for (int i = 0; i < kKeys / 16; ++i)
      WgmmaFragment<T, kDims>::mma(sums, weights + 4 * i,
                                   advance(operand(v, kChunkBytes), i * 16 * kRowBytes),
                                   i > 0 ? 1 : started);
  }

  /// Scores of a block become weights.
  TW_PTX void weigh(const Tile& tile, const AttentionSpan& inner, int consumer, int block,
                    Scores& scores, AttentionRowState& state, float (&keep)[2]) const {
    if (given.score_scale != 0) cap_scores(scores, given.score_scale);
    const int first = block * kKeys;
    if (first < inner.begin || first + kKeys > inner.end) {
      const int offset = first + int(threadIdx.x) % 4 * 2;
      const AttentionRowPair rows(given, tile, consumer);
      AttentionSpan seen[2];
      TW_UNROLL
      for (int r = 0; r < 2; ++r) {
        const AttentionSpan keys = tile.seen(given, rows.query[r]);
        seen[r] = {keys.begin - offset, keys.end - offset};
      }
      mask_scores(scores, seen);
    }
    state.update(scores, given.exponent_scale, keep);
  }
  TW_PTX static void round(const Scores& scores, Weights& weights) {
    TW_UNROLL
    for (int i = 0; i < kKeys / 4; ++i)
      weights[i] = tile::cuda::pack<T>(scores[2 * i], scores[2 * i + 1]);
  }

  TW_PTX static void pass_turn(int consumer) {
    tile::cuda::arrive_named(kTurn + (consumer + 1) % kConsumers, 2 * kWarpgroup);
  }
  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    if (threadIdx.x % kWarpgroup == 0) empty.arrive();
  }
};

}  // namespace tw::kernels
