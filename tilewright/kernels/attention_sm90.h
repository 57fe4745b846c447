// Attention on Hopper, after FlashAttention-3 (arXiv:2407.08608).
//
// A block is a warpgroup that keeps rings of blocks of keys and of values full by TMA, and one to
// three consumer warpgroups of 64 rows each. A consumer issues the scores of one block of keys,
// then the weighted values of the block before, and computes the weights of the first while the
// second runs; weights never leave registers. Consumers take turns with the tensor cores, so that
// one computes weights while the other multiplies. Blocks of keys are walked from the last: what a
// causal mask cuts comes first.
//
// Keys and values of 8 bits arrive in rings of their own; a warpgroup more widens them. Of few
// queries the consumers are other ones (attention_across_sm90.h), which widen what they read. Where
// queries have 8 bits, too, keys are multiplied as they arrive, and values are transposed: tensor
// cores take them only with keys along the rows.
//
// Rows of a tile are queries, or queries times the heads that share keys. What a box has outside
// its tensor reads as zero and is not written.
#pragma once

#include "tilewright/kernels/attention_across_sm90.h"
#include "tilewright/kernels/attention_bias_sm90.h"
#include "tilewright/kernels/attention_feed_sm90.h"
#include "tilewright/kernels/attention_widen_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

/// U: the type of keys and values, if another one.
template <class T, AttentionBuild kBuild, class Scored = AttentionPlainScores, class U = T>
struct AttentionSm90 : AttentionBlock<T, kBuild> {
  using Block = AttentionBlock<T, kBuild>;
  using Block::kChunkBytes, Block::kQueryChunkBytes, Block::kRowBytes;
  using Block::kConsumers, Block::kDims, Block::kKeys, Block::kValueDims, Block::kWarpgroup;
  using typename Block::Position;
  using typename Block::QueryBuffer;
  using typename Block::Shared;
  using TilePlace = typename Block::Tiles::Position;
  static constexpr bool kChained = Block::kQueryBuffers > 1;  // from tile to tile
  static constexpr bool kOverlaps = AttentionOverlap::exists(kBuild);
  static constexpr int kTurn = 1;               // the named barriers of the consumers' turns
  static constexpr float kNearlyZero = 1e-30F;  // times -inf, unlike zero, no NaN
  /// Weights of e4m3 are at most 2^8: it has up to 448, and its full precision down to 2^-6. Row
  /// sums are of weights that are not rounded, so that lse is as exact as scores are; sums of
  /// rounded ones would follow the values' more closely, for two more conversions of each.
  static constexpr float kLift = Block::kTransposes ? 8 : 0;

  using Arguments = AttentionArguments<T>;
  using Tile = AttentionTile;
  using Store = AttentionStore<T, kValueDims, Block::kParts>;
  const Arguments& given;

  TW_PTX explicit AttentionSm90(const Arguments& arguments) : given(arguments) {}

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    if (threadIdx.x == 0) {
      prefetch(given.q);
      prefetch(given.k);
      prefetch(given.v);
      Block::init(shared);
    }
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<kBuild.producer_registers()>();
      AttentionFeed<T, kBuild>{given}(shared);
    } else if (kBuild.has_helper_group() && warpgroup == 1 + kConsumers) {
      give_registers<kBuild.helper_registers()>();
      if constexpr (Block::kWidens) AttentionWiden<T, U, kBuild>{given}(shared);
      if constexpr (kBuild.transposers == 4) AttentionTranspose<T, kBuild>{given}(shared);
    } else {
      take_registers<kBuild.consumer_registers()>();
      if constexpr (Block::kCrosses)
        AttentionAcross<T, U, kBuild>{given}(shared);
      else
        consume(shared, warpgroup - 1);
    }
  }

 private:
  using Scores = float[kKeys / 2];
  using Weights = uint32_t[kKeys / 8 * int(sizeof(T))];
  using Sums = float[kValueDims / 2];
  using Added = typename Scored::template Ahead<T, kKeys / 2>;

  /// Where a consumer is in every ring.
  struct Places {
    Position keys, values;
    QueryBuffer queries;
    TilePlace tile;
  };

  TW_PTX void consume(Shared& shared, int consumer) const {
    Places at;
    if (kBuild.turns && consumer == kConsumers - 1) pass_turn(consumer);
    for (;;) {
      const Tile& tile = shared.tiles.wait(at.tile);
      if (tile.ends) return;
      if (!tile.empty()) {
        attend(shared, at, consumer);
      } else {
        Store{given, tile, consumer}.put_nothing();
        shared.tiles.finish(at.tile);
      }
    }
  }

  /// What a consumer has of a tile in its registers.
  struct Rows {
    AttentionRowState state;
    Scores scores;
    Weights weights;
    Sums sums;
    float keep[2];
    int started = 0;  // whether the sums have anything of the tile
    float scale;      // of the tile's scores, where they are products of 8 bits
  };

  /// A tile; or several, up to one that sees no key: the first scores of each are multiplied beside
  /// the last values of the one before, which is stored while the other consumers multiply.
  TW_PTX void attend(Shared& shared, Places& at, int consumer) const {
    using namespace tile::cuda;
    Rows rows;
    const Tile* tile = &shared.tiles.tiles[at.tile.index];
    start(shared, at, consumer, *tile, rows);
    for (;;) {
      int block = tile->last_block - 1;
      const int first = tile->first_block;
      const AttentionSpan inner = tile->inner();
      while (block > first) {
        block = step(shared, at, consumer, *tile, inner, block - 1, first, rows);
        TW_UNROLL
        for (int i = 0; i < kValueDims / 2; ++i) rows.sums[i] *= rows.keep[i / 2 % 2];
        rows.started = 1;
      }
      TilePlace after = at.tile;
      after.next();
      if (!kChained || shared.tiles.wait(after).empty()) break;
      const Store store{given, *tile, consumer};
      AttentionRowState ended = rows.state;
      rows.state = {};
      tile = &shared.tiles.tiles[after.index];
      rows.scale = scale_of(*tile);
      shared.q_full[at.queries.index][consumer].wait(at.queries.phase);
      step(shared, at, consumer, *tile, tile->inner(), tile->last_block - 1, tile->first_block,
           rows);
      put(store, ended, rows.sums);
      rows.started = 0;
      shared.tiles.finish(at.tile);
    }
    multiply_values(shared, at, rows);
    wgmma_wait<0>();
    pin(rows.sums);
    finish_values(shared, at);
    put(Store{given, *tile, consumer}, rows.state, rows.sums);
    shared.tiles.finish(at.tile);
  }

  /// The last columns are at the end of their 128 bytes, if these begin before.
  TW_PTX void put(const Store& store, AttentionRowState& state, Sums& sums) const {
    if constexpr (kOverlaps && Block::kValueChunks > 1) {
      if (given.value_overlap & 32) move_forward<32>(sums);
      if (given.value_overlap & 16) move_forward<16>(sums);
      if (given.value_overlap & 8) move_forward<8>(sums);
    }
    store.put(state, sums);
  }
  /// Those of the last 128 bytes, by kBy columns.
  template <int kBy>
  TW_PTX static void move_forward(Sums& sums) {
    constexpr int kStep = kBy / 2, kEnd = kValueDims / 2, kFirst = kEnd - Block::kChunk / 2;
    TW_UNROLL
    for (int i = kFirst; i < kEnd - kStep; ++i) sums[i] = sums[i + kStep];
  }

  /// The weights of a tile's last block, which is its first here.
  TW_PTX void start(Shared& shared, Places& at, int consumer, const Tile& tile, Rows& rows) const {
    using namespace tile::cuda;
    rows.scale = scale_of(tile);
    shared.q_full[at.queries.index][consumer].wait(at.queries.phase);
    shared.k_full[at.keys.index].wait(at.keys.phase);
    const AttentionMark here = mark(shared, at, tile.last_block - 1);
    multiply_keys(shared, at, consumer, rows.scores);
    const Added added(given, tile, consumer, here.block * kKeys);
    wgmma_wait<0>();
    pin(rows.scores);
    scale_scores(shared, at, rows.scores);
    finish_keys(shared, at, consumer, here.block == tile.first_block);
    weigh(tile, tile.inner(), consumer, here, added, rows);
    round_weights<T>(rows.scores, rows.weights);
  }
  /// The weights of a block of keys, while the values of the block before are added up. The block
  /// is `next`, or the one before it that is there; it is returned. `first` is the tile's last.
  TW_PTX int step(Shared& shared, Places& at, int consumer, const Tile& tile,
                  const AttentionSpan& inner, int next, int first, Rows& rows) const {
    using namespace tile::cuda;
    shared.k_full[at.keys.index].wait(at.keys.phase);
    const AttentionMark here = mark(shared, at, next);
    if (kBuild.turns) sync_named(kTurn + consumer, 2 * kWarpgroup);
    pin(rows.scores);
    multiply_keys(shared, at, consumer, rows.scores);
    multiply_values(shared, at, rows);
    if (kBuild.turns) pass_turn(consumer);
    const Added added(given, tile, consumer, here.block * kKeys);
    wgmma_wait<1>();
    pin(rows.scores);
    scale_scores(shared, at, rows.scores);
    finish_keys(shared, at, consumer, here.block == first);
    weigh(tile, inner, consumer, here, added, rows);
    wgmma_wait<0>();
    pin(rows.sums);
    finish_values(shared, at);
    round_weights<T>(rows.scores, rows.weights);
    return here.block;
  }

  /// The block that has arrived; `next`, where none is skipped.
  TW_PTX static AttentionMark mark(const Shared& shared, const Places& at, int next) {
    return kBuild.skips ? shared.marks[at.keys.index] : AttentionMark{next, true};
  }

  /// A block of keys has been read; so have the queries, if it was the tile's last.
  TW_PTX static void finish_keys(Shared& shared, Places& at, int consumer, bool last) {
    release<Block::kKeyReaders>(shared.k_empty[at.keys.index]);
    at.keys.next();
    if (!last) return;
    release(shared.q_empty[at.queries.index][consumer]);
    at.queries.next();
  }
  TW_PTX static void finish_values(Shared& shared, Places& at) {
    release(shared.v_empty[at.values.index]);
    at.values.next();
  }

  TW_PTX void multiply_keys(Shared& shared, const Places& at, int consumer, Scores& scores) const {
    using namespace tile::cuda;
    constexpr int kStep = 32;  // bytes
    const char* const q = shared.q[at.queries.index][consumer];
    const char* const k = shared.k[at.keys.index];
    wgmma_fence();
    TW_UNROLL
    for (int i = 0; i < kDims * int(sizeof(T)); i += kStep) {
      const int chunk = i / kRowBytes, offset = i % kRowBytes;
      if (kOverlaps && chunk > 0 && chunk == Block::kChunks - 1)
        if (offset < given.key_overlap * int(sizeof(T))) continue;
      Wgmma<T, kKeys>::mma(scores, advance(operand(q), chunk * kQueryChunkBytes + offset),
                           advance(operand(k), chunk * kChunkBytes + offset), i > 0);
    }
    wgmma_commit();
  }
  TW_PTX static void multiply_values(Shared& shared, const Places& at, Rows& rows) {
    using namespace tile::cuda;
    const char* const v = shared.v[at.values.index];
    shared.v_full[at.values.index].wait(at.values.phase);
    pin(rows.sums);
    wgmma_fence();
    TW_UNROLL
    for (int i = 0; i < int(sizeof(Weights)) / 16; ++i)
      WgmmaFragment<T, kValueDims>::mma(rows.sums, rows.weights + 4 * i, values(v, i),
                                        i > 0 ? 1 : rows.started);
    wgmma_commit();
  }
  /// The i-th 32 bytes of keys of a block: keys are rows, or along them.
  TW_PTX static uint64_t values(const char* v, int i) {
    using namespace tile::cuda;
    return Block::kTransposes ? advance(operand(v), i * 32)
                              : advance(operand(v, kChunkBytes), i * 16 * kRowBytes);
  }

  /// By the scales of keys of 8 bits.
  TW_PTX static void scale_scores(Shared& shared, const Places& at, Scores& scores) {
    if constexpr (Block::kWidens) {
      const float* const scales = shared.narrow.k_scales[at.keys.index] + threadIdx.x % 4 * 2;
      TW_UNROLL
      for (int i = 0; i < kKeys / 8; ++i) {
        const float2 pair = *reinterpret_cast<const float2*>(scales + 8 * i);
        scores[4 * i] *= pair.x, scores[4 * i + 2] *= pair.x;
        scores[4 * i + 1] *= pair.y, scores[4 * i + 3] *= pair.y;
      }
    }
  }

  /// What queries and keys of 8 bits stand for, of the tile's sequence and head.
  TW_PTX float scale_of(const Tile& tile) const {
    if constexpr (Block::kTransposes) {
      const int head = tile.head / given.heads_per_kv;
      const float scale =
          given.q_scale.at(tile.batch, 0, head) * given.k_scale.at(tile.batch, 0, head);
      return scale == 0 ? kNearlyZero : scale;
    } else {
      return 1;
    }
  }

  /// Scores of a block become weights.
  TW_PTX void weigh(const Tile& tile, const AttentionSpan& inner, int consumer,
                    const AttentionMark& here, const Added& added, Rows& rows) const {
    float exponent_scale = given.exponent_scale;
    if constexpr (Block::kTransposes) {
      if (rows.scale < 0) negate_scores(rows.scores);  // the largest has the largest exponent
      if (given.score_scale == 0) exponent_scale *= fabsf(rows.scale);
    }
    if (given.score_scale != 0)
      cap_scores(rows.scores,
                 Block::kTransposes ? given.score_scale * fabsf(rows.scale) : given.score_scale);
    const int first = here.block * kKeys;
    if constexpr (Scored::kChanges)
      Scored::change(given, tile, consumer, first, given.exponent_scale, added, here.cut,
                     rows.scores);
    if (first < inner.begin || first + kKeys > inner.end) {
      const int offset = first + int(threadIdx.x) % 4 * 2;
      const AttentionRowPair pair(given, tile, consumer);
      AttentionSpan seen[2];
      TW_UNROLL
      for (int r = 0; r < 2; ++r) {
        const AttentionSpan keys = tile.seen(given, pair.query[r]);
        seen[r] = {keys.begin - offset, keys.end - offset};
      }
      mask_scores(rows.scores, seen);
    }
    rows.state.update(rows.scores, Scored::kChanges ? 1.0f : exponent_scale, rows.keep, kLift);
  }

  TW_PTX static void pass_turn(int consumer) {
    tile::cuda::arrive_named(kTurn + (consumer + 1) % kConsumers, 2 * kWarpgroup);
  }
  template <int kThreads = kWarpgroup>
  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    if constexpr (kThreads == 32) __syncwarp();
    if (threadIdx.x % kThreads == 0) empty.arrive();
  }
};

}  // namespace tw::kernels
