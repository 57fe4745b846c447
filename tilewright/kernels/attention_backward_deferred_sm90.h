// The consumers of attention's backward on Hopper for up to 64 dims, which have the same shares as
// those for 128 (attention_backward_halves_sm90.h). Products take no longer than exponentials and
// slopes here, so the tensor cores must not wait for them: while a consumer computes the weights of
// a block of queries, they multiply its gradients by values and the slopes of the block before by
// keys; while it computes slopes, they sum up the gradients of values, then those of keys, and then
// go on with the next block. A consumer waits for the other's slopes when that has long been
// queued.
//
// Values are left operands in registers: products of 64 x 64 that read both operands take all that
// shared memory gives. Keys as well would be too many registers.
#pragma once

#include "tilewright/kernels/attention_backward_products_sm90.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardDeferred : AttentionBackwardProducts<T, kBuild> {
  using Block = AttentionBackwardBlock<T, kBuild>;
  using Base = AttentionBackwardProducts<T, kBuild>;
  using Base::given, Base::load_rows;
  using Base::hand_sums, Base::put_rows, Base::put_sums, Base::release, Base::wait_sums;
  using Base::multiply_fragment, Base::multiply_keys, Base::multiply_rows;
  using Block::kDims, Block::kKeyBuffers, Block::kKeys;
  using Block::kQueries, Block::kRowBytes, Block::kRows;
  using typename Base::KeySums;
  using typename Base::QuerySums;
  using typename Base::Scores;
  using typename Base::Weights;
  using typename Block::Shared;
  using typename Block::Walk;
  using Position = typename Block::QueryPosition;
  static_assert(kDims * 2 == kRowBytes && Block::kPieces == 1);
  static_assert(Block::kGradStages == Block::kQueryStages);

  TW_PTX void operator()(Shared& shared, int consumer) const {
    Place place;
    int tiles = 0;
    for (Walk walk(given); walk.more(); walk.next()) {
      const AttentionBackwardTile tile = walk.order().tile(walk.key_block());
      KeySums k_sum = {}, v_sum = {};
      if (tile.steps > 0) {
        const int buffer = tiles % kKeyBuffers;
        Tile of{walk, consumer, shared.k[buffer]};
        shared.v_full.wait(uint32_t(tiles) & 1);
        load_rows(shared.v, consumer * kRows, of.values);
        release(shared.v_empty);
        shared.k_full[buffer].wait(uint32_t(tiles / kKeyBuffers) & 1);
        pass_by(shared, place, of, tile.steps, k_sum, v_sum);
        release(shared.k_empty[buffer]);
        ++tiles;
      }
      TW_UNROLL
      for (int i = 0; i < kDims / 2; ++i) k_sum[i] *= given.scale;
      const int first_key = walk.key_block() * kKeys + consumer * kRows;
      put_rows(walk, first_key, given.k_grad, given.dims, k_sum);
      put_rows(walk, first_key, given.v_grad, given.value_dims, v_sum);
    }
  }

 private:
  /// Where a consumer is in the rings.
  struct Place {
    Position at;
    int step = 0;  // of all tiles

    TW_PTX void next() {
      at.next();
      ++step;
    }
  };

  /// What all blocks of queries of a tile have in common.
  struct Tile {
    const Walk& walk;
    const int consumer;
    const char* const keys;
    const int first_key = walk.key_block() * kKeys + consumer * kRows;
    const AttentionInterval inner = walk.order().all_seeing(first_key, first_key + kRows - 1);
    uint32_t values[kDims / 4];  // 64 of them
  };

  /// All blocks of queries that see the keys.
  TW_PTX void pass_by(Shared& shared, Place& place, const Tile& of, int steps, KeySums& k_sum,
                      KeySums& v_sum) const {
    using namespace tile::cuda;
    Scores scores, products;
    Weights weights;
    QuerySums q_sum;
    multiply_next(shared, place.at, of, scores, products);
    wgmma_wait<1>();
    weigh_next(shared, place.at, of, scores, weights);
    wgmma_wait<0>();
    int i = 0;
    for (; i < steps - 1; ++i)
      pass_block<false>(shared, place, of, i > 0, scores, products, weights, q_sum, k_sum, v_sum);
    pass_block<true>(shared, place, of, i > 0, scores, products, weights, q_sum, k_sum, v_sum);
    pin(k_sum);
    pin(v_sum);
    release(shared.q_empty[place.at.previous()]);
    release(shared.grad_empty[place.at.previous()]);
    finish_sums(shared, of.consumer, place.step - 1, q_sum);
  }

  /// Of the block at a place, two groups of wgmma.
  TW_PTX static void multiply_next(Shared& shared, const Position& at, const Tile& of,
                                   Scores& scores, Scores& products) {
    using namespace tile::cuda;
    shared.q_full[at.index].wait(at.phase);
    pin(scores);
    wgmma_fence();
    multiply_rows(of.keys + of.consumer * kRows * kRowBytes, shared.q[at.index], scores);
    wgmma_commit();
    shared.grad_full[at.index].wait(at.phase);
    pin(products);
    wgmma_fence();
    TW_UNROLL
    for (int i = 0; i < kDims / 16; ++i)
      WgmmaFragment<T, kQueries, false>::mma(
          products, of.values + 4 * i, advance(operand(shared.grad[at.index]), i * 32), i > 0);
    wgmma_commit();
  }
  TW_PTX static void add_product(const Weights& weights, const char* queries, KeySums& sums) {
    using namespace tile::cuda;
    pin(sums);
    wgmma_fence();
    multiply_fragment(weights, queries, sums);
    wgmma_commit();
  }
  /// Scores that are there become weights.
  TW_PTX void weigh_next(Shared& shared, const Position& at, const Tile& of, Scores& scores,
                         Weights& weights) const {
    tile::cuda::pin(scores);
    const int block = shared.blocks[at.index];
    if (given.score_scale != 0) cap_scores(scores, given.score_scale);
    if (block < of.inner.begin || block >= of.inner.end)
      Base::mask(of.walk.order(), of.first_key, block, scores);
    Base::weigh(shared.rows[at.index][0], scores, weights);
  }

  /// From the slopes of a block of queries, whose weights and products are there, to the weights of
  /// the next one, with nothing under way before and after. The queries' gradients of the block
  /// before are there: who has the other's slopes of a block may overwrite those of the block
  /// before.
  template <bool kLast>
  TW_PTX void pass_block(Shared& shared, Place& place, const Tile& of, int started, Scores& scores,
                         Scores& products, Weights& weights, QuerySums& q_sum, KeySums& k_sum,
                         KeySums& v_sum) const {
    using namespace tile::cuda;
    const Place here = place;
    place.next();
    const int index = here.at.index;
    Weights slopes;
    add_product(weights, shared.grad[index], v_sum);
    pin(products);
    Base::slope(scores, products, shared.rows[index][1], slopes);
    Base::store_slopes(shared.slopes[here.step % 2], of.consumer * kRows, slopes);
    add_product(slopes, shared.q[index], k_sum);
    fence_async_shared();
    release(shared.slopes_full[here.step % 2]);
    if (!kLast) multiply_next(shared, place.at, of, scores, products);
    if (started) finish_sums(shared, of.consumer, here.step - 1, q_sum);
    shared.slopes_full[here.step % 2].wait(uint32_t(here.step / 2) & 1);
    pin(q_sum);
    wgmma_fence();
    multiply_keys(shared.slopes[here.step % 2], of.keys, of.consumer, q_sum);
    wgmma_commit();
    if (kLast) {
      wgmma_wait<0>();
      return;
    }
    wgmma_wait<2>();
    release(shared.q_empty[index]);
    release(shared.grad_empty[index]);
    weigh_next(shared, place.at, of, scores, weights);
    wgmma_wait<0>();
  }
  TW_PTX static void finish_sums(Shared& shared, int consumer, int step, QuerySums& q_sum) {
    tile::cuda::pin(q_sum);
    wait_sums(shared, consumer, step);
    put_sums(shared, consumer, step, q_sum);
    hand_sums(shared, consumer, step);
  }
};

}  // namespace tw::kernels
