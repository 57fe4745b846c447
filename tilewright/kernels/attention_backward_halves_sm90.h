// The consumers of attention's backward on Hopper for up to 128 dims: each has 64 of 128 keys,
// whose weights and slopes stay in registers as left operands of the products that become the
// gradients of values and keys. Slopes also go to shared memory, whence both consumers compute a
// half each of the queries' gradients.
#pragma once

#include "tilewright/kernels/attention_backward_products_sm90.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardHalves : AttentionBackwardProducts<T, kBuild> {
  using Block = AttentionBackwardBlock<T, kBuild>;
  using Base = AttentionBackwardProducts<T, kBuild>;
  using Base::given, Base::multiply_rows, Base::multiply_fragment, Base::multiply_keys;
  using Base::hand_sums, Base::put_rows, Base::put_sums, Base::release, Base::wait_sums;
  using Block::kConsumers, Block::kDims, Block::kKeys, Block::kMeeting, Block::kRowBytes;
  using Block::kRows, Block::kWarpgroup;
  using typename Base::KeySums;
  using typename Base::QuerySums;
  using typename Base::Scores;
  using typename Base::Weights;
  using typename Block::Order;
  using typename Block::Shared;
  using typename Block::Walk;
  using Position = typename Block::QueryPosition;

  TW_PTX void operator()(Shared& shared, int consumer) const {
    Position at;
    uint32_t phase = 0;
    int step = 0;  // of all tiles
    for (Walk walk(given); walk.more(); walk.next()) {
      const AttentionBackwardTile tile = walk.order().tile(walk.key_block());
      KeySums k_sum = {}, v_sum = {};
      if (tile.steps > 0) {
        shared.k_full[0].wait(phase);
        shared.v_full.wait(phase);
        phase ^= 1;
        pass_by(shared, at, step, walk, tile, consumer, k_sum, v_sum);
        release(shared.k_empty[0]);
        release(shared.v_empty);
      }
      TW_UNROLL
      for (int i = 0; i < kDims / 2; ++i) k_sum[i] *= given.scale;
      const int first_key = walk.key_block() * kKeys + consumer * kRows;
      put_rows(walk, first_key, given.k_grad, given.dims, k_sum);
      put_rows(walk, first_key, given.v_grad, given.value_dims, v_sum);
    }
  }

 private:
  /// All blocks of queries that see the keys.
  TW_PTX void pass_by(Shared& shared, Position& at, int& step, const Walk& walk,
                      const AttentionBackwardTile& tile, int consumer, KeySums& k_sum,
                      KeySums& v_sum) const {
    using namespace tile::cuda;
    Scores scores;
    shared.q_full[at.index].wait(at.phase);
    pin(scores);
    wgmma_fence();
    multiply_rows(shared.k[0] + consumer * kRows * kRowBytes, shared.q[at.index], scores);
    wgmma_commit();
    wgmma_wait<0>();
    pin(scores);
    const int first_key = walk.key_block() * kKeys + consumer * kRows;
    const Order order = walk.order();
    const AttentionInterval inner = order.all_seeing(first_key, first_key + kRows - 1);
    int i = 0;
    for (; i < tile.steps - 1; ++i)
      pass_block<false>(shared, at, step++, order, first_key, inner, i > 0, consumer, scores, k_sum,
                        v_sum);
    pass_block<true>(shared, at, step++, order, first_key, inner, i > 0, consumer, scores, k_sum,
                     v_sum);
    hand_sums(shared, consumer, step - 1);
  }

  /// One block of queries, whose scores are there; those of the next one are computed beside. Its
  /// sums are handed over during the next step, or after the last.
  template <bool kLast>
  TW_PTX void pass_block(Shared& shared, Position& at, int step, const Order& order, int first_key,
                         const AttentionInterval& inner, int started, int consumer, Scores& scores,
                         KeySums& k_sum, KeySums& v_sum) const {
    using namespace tile::cuda;
    const int row_bytes = consumer * kRows * kRowBytes;
    const Position here = at;
    at.next();
    const int block = shared.blocks[here.index];
    Scores products;
    shared.grad_full[here.index].wait(here.phase);
    pin(products);
    wgmma_fence();
    multiply_rows(shared.v + row_bytes, shared.grad[here.index], products);
    wgmma_commit();
    if (started) hand_sums(shared, consumer, step - 1);
    Weights weights, slopes;
    if (given.score_scale != 0) cap_scores(scores, given.score_scale);
    if (block < inner.begin || block >= inner.end) Base::mask(order, first_key, block, scores);
    Base::weigh(shared.rows[here.index][0], scores, weights);
    pin(v_sum);
    wgmma_fence();
    multiply_fragment(weights, shared.grad[here.index], v_sum);
    wgmma_commit();
    wgmma_wait<1>();
    pin(products);
    Base::slope(scores, products, shared.rows[here.index][1], slopes);
    Base::store_slopes(shared.slopes[step % 2], consumer * kRows, slopes);
    pin(k_sum);
    wgmma_fence();
    multiply_fragment(slopes, shared.q[here.index], k_sum);
    wgmma_commit();
    fence_async_shared();
    sync_named(kMeeting, kConsumers * kWarpgroup);
    QuerySums q_sum;
    pin(q_sum);
    wgmma_fence();
    multiply_keys(shared.slopes[step % 2], shared.k[0], consumer, q_sum);
    wgmma_commit();
    wgmma_wait<1>();
    pin(v_sum);
    pin(k_sum);
    release(shared.q_empty[here.index]);
    release(shared.grad_empty[here.index]);
    if (!kLast) {
      shared.q_full[at.index].wait(at.phase);
      pin(scores);
      wgmma_fence();
      multiply_rows(shared.k[0] + row_bytes, shared.q[at.index], scores);
      wgmma_commit();
    }
    wait_sums(shared, consumer, step);
    wgmma_wait<kLast ? 0 : 1>();
    pin(q_sum);
    put_sums(shared, consumer, step, q_sum);
    if (!kLast) {
      wgmma_wait<0>();
      pin(scores);
    }
  }
};

}  // namespace tw::kernels
