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
#include "tilewright/kernels/mla_feed_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

template <class T, MlaBuild kBuild, class U = T>
struct MlaSm90 : MlaBlock<T, kBuild> {
  using Block = MlaBlock<T, kBuild>;
  using Block::kKeys, Block::kPieces, Block::kRotated, Block::kHalfPieces, Block::kPieceBytes;
  using Block::kRows, Block::kRowBytes, Block::kConsumers, Block::nth_piece;
  using typename Block::Shared;
  using typename Block::Tiles;
  using Tile = AttentionTile;
  static constexpr int kHalf = kBuild.values / 2, kWarpgroup = 128;
  /// Named barriers of both consumers: maxima of either (with the weights of the second), the
  /// first one's weights, the end of a tile.
  enum Meeting { kFirstHigh = 1, kSecondHigh, kFirstWeights, kEnd };

  const MlaArguments<T, U>& given;

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    if (threadIdx.x == 0) {
      prefetch(given.q);
      prefetch(given.q_pe);
      if (!given.gathers()) {
        prefetch(given.k);
        prefetch(given.k_pe);
      }
      Block::init(shared, given.gathers());
    }
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<72>();
      MlaFeed<T, U, kBuild>{{}, given}(shared);
    } else {
      take_registers<216>();
      if (warpgroup == 1)
        consume<0>(shared);
      else
        consume<1>(shared);
    }
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
    typename Tiles::Position at;
    uint32_t q_phase = 0;
    uint32_t phases[2] = {0, 0};  // of blocks
    for (;;) {
      const Tile& tile = shared.tiles.wait(at);
      if (tile.ends) return;
      const AttentionStore<T, kHalf, true> store{given, tile, 0, kMine * kHalf};
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
      shared.tiles.finish(at);
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

  /// The scores of a consumer's block, masked.
  template <int kMine>
  TW_PTX void score(Shared& shared, const Tile& tile, uint32_t phase, int block,
                    Scores& scores) const {
    using namespace tile::cuda;
    constexpr int kSteps = kRowBytes / 32;  // of 16 dims in 128 bytes
    pin(scores);
    wgmma_fence();
    const auto multiply = [&](int piece, bool adds) {
      wait_for<kMine>(shared, piece, phase);
      TW_UNROLL
      for (int j = 0; j < kSteps; ++j)
        Wgmma<T, kKeys>::mma(scores, advance(operand(shared.q[piece]), j * 32),
                             advance(operand(shared.k[kMine][piece]), j * 32), adds || j > 0);
    };
    // Not unrolled: a launch reads its code from memory.
    multiply(nth_piece(kMine, 0), false);
    TW_NO_UNROLL
    for (int i = 1; i < kPieces; ++i) multiply(nth_piece(kMine, i), true);
    wgmma_commit();
    wgmma_wait<0>();
    pin(scores);
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
  TW_PTX void multiply_handed(Shared& shared, uint32_t phase, Sums& sums, int started) const {
    using namespace tile::cuda;
    constexpr int kOther = 1 - kMine;
    TW_UNROLL
    for (int i = 0; i < kHalfPieces; ++i) wait_for<kOther>(shared, kMine * kHalfPieces + i, phase);
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

  /// Until a block has a piece; those before it in the same half are waited for in turn.
  template <int kBuffer>
  TW_PTX void wait_for(Shared& shared, int piece, uint32_t phase) const {
    if (!given.gathers()) return shared.k_full[kBuffer][piece].wait(phase);
    if (piece != kRotated && piece % kHalfPieces != 0) return;
    shared.k_full[kBuffer][Block::gathered_with(piece)].wait(phase);
    tile::cuda::fence_async_shared();
  }
  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    if (threadIdx.x % kWarpgroup == 0) empty.arrive();
  }
};

}  // namespace tw::kernels
