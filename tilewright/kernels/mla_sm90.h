// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434) on Hopper, after FlashMLA's schedule
// of two warpgroups that take turns.
//
// Keys are values: a block of 64 keys is loaded once, in pieces of 64 dims, the last of which are
// rotated and no values. A tile's sums, 64 x 512, need the registers of two warpgroups, half of the
// columns each. Blocks go in pairs: consumer c computes scores and weights of block c of a pair,
// multiplies them by its half of that block's values, and hands them to the other through the
// memory of the rotated piece, which by then has been read. While one computes weights the other
// multiplies.
//
// Of a pair, consumer 0 weighs first; consumer 1 goes on from its maxima, and consumer 0 scales the
// weights that it hands over to those of consumer 1. One warp loads the first blocks of pairs, one
// the second ones, each piece with a barrier of its own: scores begin with the first to arrive.
#pragma once

#include "tilewright/kernels/attention_store_sm90.h"
#include "tilewright/kernels/mla_build_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/tma.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

template <class T, MlaBuild kBuild>
struct MlaSm90 {
  static constexpr int kKeys = MlaBuild::kKeys, kRows = MlaBuild::kRows, kRowBytes = 128;
  static constexpr int kPieces = kBuild.pieces(), kHalf = kBuild.values / 2;
  static constexpr int kRotated = kPieces - 1, kHalfPieces = kRotated / 2;
  static constexpr int kPieceBytes = kKeys * kRowBytes, kWarpgroup = 128, kConsumers = 2;
  static constexpr int kTileSlots = 4;
  /// Named barriers of both consumers: maxima of either (with the weights of the second), the
  /// first one's weights, the end of a tile.
  enum Meeting { kFirstHigh = 1, kSecondHigh, kFirstWeights, kEnd };

  using Tile = AttentionTile;
  const MlaArguments<T>& given;

  struct alignas(1024) Shared {
    char k[2][kPieces][kPieceBytes];
    char q[kPieces][kPieceBytes];
    float high[2][kRows], totals[2][kRows];
    Tile tiles[kTileSlots];  // what the producers have loaded, or are about to
    tile::cuda::Mbarrier tile_full[kTileSlots], tile_empty[kTileSlots];
    tile::cuda::Mbarrier k_full[2][kPieces], tail_full[2], q_full, q_empty;
    tile::cuda::Mbarrier k_empty[2][2];  // the half that the block's own consumer multiplies; rest
  };
  static_assert(sizeof(Shared) <= kBuild.shared_bytes());

  struct TileSlot {
    int index = 0;
    uint32_t phase = 0;

    TW_PTX void next() {
      if (++index == kTileSlots) {
        index = 0;
        phase ^= 1;
      }
    }
  };

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    if (threadIdx.x == 0) init(shared);
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<72>();
      const int warp = uniform(int(threadIdx.x) / 32);
      if (warp < 2) produce(shared, warp);
    } else {
      take_registers<216>();
      if (warpgroup == 1)
        consume<0>(shared);
      else
        consume<1>(shared);
    }
  }

  TW_PTX void init(Shared& shared) const {
    using namespace tile::cuda;
    prefetch(given.q);
    prefetch(given.k);
    prefetch(given.q_pe);
    prefetch(given.k_pe);
    for (int b = 0; b < 2; ++b) {
      for (int i = 0; i < kPieces; ++i) shared.k_full[b][i].init(1);
      for (int i = 0; i < 2; ++i) shared.k_empty[b][i].init(1);
      shared.tail_full[b].init(1);
    }
    for (int i = 0; i < kTileSlots; ++i) {
      shared.tile_full[i].init(1);
      shared.tile_empty[i].init(kConsumers);
    }
    shared.q_full.init(1);
    shared.q_empty.init(kConsumers);
    fence_barrier_init();
  }

  // ---- the producers: a warp for each block of a pair, of which one thread issues

  TW_PTX void produce(Shared& shared, int buffer) const {
    TileSlot slot;
    uint32_t phase = 0, q_phase = 0, tail_phase = 0;
    Tile tile;
    AttentionWalk walk(given.order);
    for (bool more = true; more; slot.next()) {
      more = walk.next(given, kRows / given.pack, kKeys, tile);
      if (buffer == 0) publish(shared, slot, tile);
      if (tile.empty()) continue;
      if (buffer == 0) load_queries(shared, tile, q_phase);
      attend(shared, buffer, tile, phase, tail_phase);
    }
  }

  /// The blocks of a tile that go into one of the buffers.
  TW_PTX void attend(Shared& shared, int buffer, const Tile& tile, uint32_t& phase,
                     uint32_t& tail_phase) const {
    int block = tile.last_block - 1 - buffer;
    // Pages are looked up ahead of what they are for: that takes long.
    int page = find_page(tile, block), next = find_page(tile, block - 2);
    // Of the blocks of threads that share keys, which run at the same time, one.
    const bool leads = tile.head % given.heads_per_kv == 0 && tile.first_query == 0;
    for (; block >= tile.first_block; block -= 2) {
      const int further = find_page(tile, block - 4);
      load_keys(shared, buffer, phase, tail_phase, tile, block, page);
      if (leads && block - 2 >= tile.first_block) prefetch_keys(tile, block - 2, next);
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

  TW_PTX static void publish(Shared& shared, const TileSlot& at, const Tile& tile) {
    if (tile::cuda::elect_one()) {
      shared.tile_empty[at.index].wait(at.phase ^ 1);
      shared.tiles[at.index] = tile;
      shared.tile_full[at.index].arrive();
    }
    __syncwarp();
  }

  TW_PTX void load_queries(Shared& shared, const Tile& tile, uint32_t& phase) const {
    using namespace tile::cuda;
    if (elect_one()) {
      shared.q_empty.wait(phase ^ 1);
      shared.q_full.arrive_expect(kRows / given.pack * given.pack * kRowBytes * kPieces);
      for (int i = 0; i < kPieces; ++i)
        load_box(shared.q[i], i == kRotated ? given.q_pe : given.q, shared.q_full,
                 i == kRotated ? 0 : i * MlaBuild::kColumns, 0, tile.q_base + tile.first_query,
                 tile.head, tile.q_outer);
    }
    __syncwarp();
    phase ^= 1;
  }

  /// A block in the order in which its consumer reads it; `page` is that of the lane's box.
  TW_PTX void load_keys(Shared& shared, int buffer, uint32_t phase, uint32_t& tail_phase,
                        const Tile& tile, int block, int page) const {
    using namespace tile::cuda;
    const int rest = tile.kv_len - block * kKeys, keys = rest < kKeys ? rest : kKeys;
    const bool tail = keys < kKeys && given.shares_memory();
    const int boxes = (keys + given.box_keys - 1) / given.box_keys;
    const int bytes = boxes * given.box_keys * kRowBytes;
    const int row = box_row(tile, block), head = tile.head / given.heads_per_kv;
    const int outer = given.table ? page : tile.kv_outer;
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
    for (int piece = 0; piece < kPieces; ++piece)
      for (int i = lane(); i < count; i += 32)
        reinterpret_cast<uint4*>(shared.k[buffer][piece] + keys * kRowBytes)[i] = {0, 0, 0, 0};
    fence_async_shared();
    __syncwarp();
    if (elect_one())
      for (int piece = 0; piece < kPieces; ++piece) shared.k_full[buffer][piece].arrive();
    __syncwarp();
  }

  /// Into L2, a block that is loaded later.
  TW_PTX void prefetch_keys(const Tile& tile, int block, int page) const {
    const int row = box_row(tile, block), head = tile.head / given.heads_per_kv;
    const int outer = given.table ? page : tile.kv_outer;
    if (lane() * given.box_keys < kKeys)
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

  /// Pieces of block `buffer` of a pair as its consumer reads them: its own half first.
  TW_PTX static constexpr int nth_piece(int buffer, int i) {
    return i == kRotated                      ? i
           : i < kHalfPieces == (buffer == 0) ? i % kHalfPieces
                                              : kHalfPieces + i % kHalfPieces;
  }

  // ---- the consumers

  using Scores = float[kKeys / 2];
  using Weights = uint32_t[kKeys / 4];
  using Sums = float[kHalf / 2];

  /// What a consumer has of a tile.
  struct State {
    AttentionRowState rows;
    Scores scores;
    Sums sums;
    int started = 0;  // whether there are sums
  };

  template <int kMine>
  TW_PTX void consume(Shared& shared) const {
    TileSlot slot;
    uint32_t q_phase = 0;
    uint32_t phases[2] = {0, 0};  // of blocks
    for (;; slot.next()) {
      shared.tile_full[slot.index].wait(slot.phase);
      const Tile& tile = shared.tiles[slot.index];
      if (tile.ends) return;
      const AttentionStore<T, kHalf> store{given, tile, 0, kMine * kHalf};
      if (tile.empty()) {
        store.put_nothing();
      } else {
        State state;
        shared.q_full.wait(q_phase);
        q_phase ^= 1;
        attend<kMine>(shared, tile, phases, state);
        release(shared.q_empty);
        add_totals<kMine>(shared, state.rows);
        store.put(state.rows, state.sums);
      }
      release(shared.tile_empty[slot.index]);
    }
  }

  /// All pairs of blocks, from the last; the one that is left over.
  template <int kMine>
  TW_PTX void attend(Shared& shared, const Tile& tile, uint32_t (&phases)[2], State& state) const {
    int block = tile.last_block - 1;
    for (; block > tile.first_block; block -= 2) {
      if constexpr (kMine == 0)
        lead<true>(shared, tile, phases, block, state);
      else
        follow<true>(shared, tile, phases, block - 1, state);
      phases[0] ^= 1;
      phases[1] ^= 1;
    }
    if (block < tile.first_block) return;
    if constexpr (kMine == 0)
      lead<false>(shared, tile, phases, block, state);
    else
      follow<false>(shared, tile, phases, block - 1, state);
    phases[0] ^= 1;
  }

  /// Consumer 0 and a pair whose first block is `block`.
  template <bool kPaired>
  TW_PTX void lead(Shared& shared, const Tile& tile, const uint32_t (&phases)[2], int block,
                   State& state) const {
    using namespace tile::cuda;
    score<0>(shared, tile, phases[0], block, state.scores);
    float keep[2];
    Weights weights, handed;
    state.rows.raise(state.scores, given.exponent_scale, keep);
    put_high(shared.high[0], state.rows);
    arrive_named(kFirstHigh, kConsumers * kWarpgroup);
    state.rows.weigh(state.scores, given.exponent_scale, keep);
    scale(state.sums, keep);
    round(state.scores, weights);
    pin(state.sums);
    multiply_own<0>(shared, weights, state.sums, state.started);
    sync_named(kSecondHigh, kConsumers * kWarpgroup);
    adopt_high(shared.high[1], state.rows, keep);
    scale(state.scores, keep);
    round(state.scores, handed);
    put_weights(shared.k[0][kRotated], handed);
    fence_async_shared();
    arrive_named(kFirstWeights, kConsumers * kWarpgroup);
    wgmma_wait<0>();
    pin(state.sums);
    release(shared.k_empty[0][0]);
    state.started = 1;
    if constexpr (!kPaired) return;
    scale(state.sums, keep);
    pin(state.sums);
    multiply_handed<0>(shared, phases[1], state.sums, 1);
    wgmma_wait<0>();
    pin(state.sums);
    release(shared.k_empty[1][1]);
  }

  /// Consumer 1 and a pair whose second block is `block`, if it has one.
  template <bool kPaired>
  TW_PTX void follow(Shared& shared, const Tile& tile, const uint32_t (&phases)[2], int block,
                     State& state) const {
    using namespace tile::cuda;
    float keep[2] = {1, 1}, more[2];
    Weights weights;
    if constexpr (kPaired) {
      score<1>(shared, tile, phases[1], block, state.scores);
      state.rows.raise(state.scores, given.exponent_scale, keep);
    }
    sync_named(kFirstHigh, kConsumers * kWarpgroup);
    adopt_high(shared.high[0], state.rows, more);
    put_high(shared.high[1], state.rows);
    if constexpr (kPaired) {
      state.rows.weigh(state.scores, given.exponent_scale, keep);
      round(state.scores, weights);
      put_weights(shared.k[1][kRotated], weights);
      fence_async_shared();
    }
    arrive_named(kSecondHigh, kConsumers * kWarpgroup);
    scale(state.sums, {keep[0] * more[0], keep[1] * more[1]});
    pin(state.sums);
    if constexpr (kPaired) {
      multiply_own<1>(shared, weights, state.sums, state.started);
      state.started = 1;
    }
    sync_named(kFirstWeights, kConsumers * kWarpgroup);
    multiply_handed<1>(shared, phases[0], state.sums, state.started);
    state.started = 1;
    if constexpr (kPaired) {
      wgmma_wait<1>();
      release(shared.k_empty[1][0]);
    }
    wgmma_wait<0>();
    release(shared.k_empty[0][1]);
    pin(state.sums);
  }

  /// The scores of a consumer's block, capped and masked.
  template <int kMine>
  TW_PTX void score(Shared& shared, const Tile& tile, uint32_t phase, int block,
                    Scores& scores) const {
    using namespace tile::cuda;
    constexpr int kSteps = kRowBytes / 32;  // of 16 dims in 128 bytes
    pin(scores);
    wgmma_fence();
    TW_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      const int piece = nth_piece(kMine, i);
      shared.k_full[kMine][piece].wait(phase);
      TW_UNROLL
      for (int j = 0; j < kSteps; ++j)
        Wgmma<T, kKeys>::mma(scores, advance(operand(shared.q[piece]), j * 32),
                             advance(operand(shared.k[kMine][piece]), j * 32), i + j > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    pin(scores);
    if (given.score_scale != 0) cap_scores(scores, given.score_scale);
    const int first = block * kKeys;
    if (first >= tile.inner_begin && first + kKeys <= tile.inner_end) return;
    const int offset = first + int(threadIdx.x) % 4 * 2;
    const AttentionRowPair rows(given, tile, 0);
    AttentionSpan seen[2];
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const AttentionSpan keys = tile.seen(given, rows.query[r]);
      seen[r] = {keys.begin - offset, keys.end - offset};
    }
    mask_scores(scores, seen);
  }

  /// The weights of a consumer's own block, in registers, times its half of the values.
  template <int kMine>
  TW_PTX static void multiply_own(const Shared& shared, const Weights& weights, Sums& sums,
                                  int started = 1) {
    using namespace tile::cuda;
    const char* const values = shared.k[kMine][kMine * kHalfPieces];
    wgmma_fence();
    TW_UNROLL
    for (int i = 0; i < kKeys / 16; ++i)
      WgmmaFragment<T, kHalf>::mma(sums, weights + 4 * i,
                                   advance(operand(values, kPieceBytes), i * 16 * kRowBytes),
                                   i > 0 ? 1 : started);
    wgmma_commit();
  }
  /// The weights that the other consumer has handed over times this one's half of the values.
  template <int kMine>
  TW_PTX static void multiply_handed(Shared& shared, uint32_t phase, Sums& sums, int started) {
    using namespace tile::cuda;
    constexpr int kOther = 1 - kMine;
    TW_UNROLL
    for (int i = 0; i < kHalfPieces; ++i)
      shared.k_full[kOther][kMine * kHalfPieces + i].wait(phase);
    const char* const weights = shared.k[kOther][kRotated];
    const char* const values = shared.k[kOther][kMine * kHalfPieces];
    wgmma_fence();
    TW_UNROLL
    for (int i = 0; i < kKeys / 16; ++i)
      Wgmma<T, kHalf, false, true>::mma(sums, advance(operand(weights), i * 32),
                                        advance(operand(values, kPieceBytes), i * 16 * kRowBytes),
                                        i > 0 ? 1 : started);
    wgmma_commit();
  }

  TW_PTX static void round(const Scores& scores, Weights& weights) {
    TW_UNROLL
    for (int i = 0; i < kKeys / 4; ++i)
      weights[i] = tile::cuda::pack<T>(scores[2 * i], scores[2 * i + 1]);
  }
  template <int kCount>
  TW_PTX static void scale(float (&x)[kCount], const float (&keep)[2]) {
    TW_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] *= keep[i / 2 % 2];
  }
  /// As the left operand of a product, rows of 128 bytes in the 128-byte swizzle.
  TW_PTX static void put_weights(char* to, const Weights& weights) {
    const int thread = int(threadIdx.x) % kWarpgroup, matrix = thread % 32 / 8;
    const int row = thread / 32 * 16 + matrix % 2 * 8 + thread % 8;
    TW_UNROLL
    for (int i = 0; i < kKeys / 16; ++i)
      tile::cuda::store_matrices(to + row * kRowBytes + ((2 * i + matrix / 2) ^ (thread % 8)) * 16,
                                 weights[4 * i], weights[4 * i + 1], weights[4 * i + 2],
                                 weights[4 * i + 3]);
  }

  /// The first of a thread's rows; the other is 8 further on.
  TW_PTX static int row() {
    return int(threadIdx.x) % kWarpgroup / 32 * 16 + int(threadIdx.x) % 32 / 4;
  }
  TW_PTX static void put_high(float* to, const AttentionRowState& rows) {
    if (threadIdx.x % 4 != 0) return;
    to[row()] = rows.high[0];
    to[row() + 8] = rows.high[1];
  }
  /// The greater of the own maxima and the other consumer's.
  TW_PTX static void adopt_high(const float* from, AttentionRowState& rows, float (&keep)[2]) {
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      rows.raise(r, from[row() + 8 * r], keep[r]);
      rows.total[r] *= keep[r];
    }
  }
  /// Both consumers' totals, in the first of a row's threads.
  template <int kMine>
  TW_PTX static void add_totals(Shared& shared, AttentionRowState& rows) {
    const bool first = threadIdx.x % 4 == 0;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      rows.total[r] = attention_sm90::sum_over_quad(rows.total[r]);
      if (first) shared.totals[kMine][row() + 8 * r] = rows.total[r];
    }
    tile::cuda::sync_named(kEnd, kConsumers * kWarpgroup);
    TW_UNROLL
    for (int r = 0; r < 2; ++r)
      rows.total[r] = first ? rows.total[r] + shared.totals[1 - kMine][row() + 8 * r] : 0;
  }

  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    if (threadIdx.x % kWarpgroup == 0) empty.arrive();
  }
};

}  // namespace tw::kernels
