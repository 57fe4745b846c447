// The consumers of attention's backward on Hopper for more than 128 dims: both have the same 64
// keys. The first computes weights and with them the gradients of values, the second slopes and
// with them the gradients of keys, as left operands in registers. Weights pass to the second in
// float32, slopes to both through shared memory: each computes half of the queries' gradients, a
// piece at a time.
//
// While one computes exponents or slopes, the other multiplies: the first is ahead by the weights
// of a block.
#pragma once

#include "tilewright/kernels/attention_backward_products_sm90.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardRoles : AttentionBackwardProducts<T, kBuild> {
  using Block = AttentionBackwardBlock<T, kBuild>;
  using Base = AttentionBackwardProducts<T, kBuild>;
  using Base::given, Base::multiply_rows, Base::multiply_fragment, Base::multiply_keys;
  using Base::hand_sums, Base::put_rows, Base::put_sums, Base::release, Base::wait_sums;
  using Block::kDims, Block::kKeys, Block::kPieces, Block::kQueries, Block::kWarpgroup;
  using typename Base::KeySums;
  using typename Base::QuerySums;
  using typename Base::Scores;
  using typename Base::Weights;
  using typename Block::GradPosition;
  using typename Block::Order;
  using typename Block::QueryPosition;
  using typename Block::Shared;
  using typename Block::Walk;
  static_assert(kPieces == 2 && kKeys == Block::kRows);

  /// The first consumer.
  TW_PTX void weigh_values(Shared& shared) const {
    Place at;
    pass_keys(shared, given.v_grad, given.value_dims, 1,
              [&](const Walk& walk, const AttentionBackwardTile& tile, KeySums& sums) {
                weigh(shared, at, walk, tile, sums);
              });
  }
  /// The second.
  TW_PTX void slope_keys(Shared& shared) const {
    Place at;
    pass_keys(shared, given.k_grad, given.dims, given.scale,
              [&](const Walk&, const AttentionBackwardTile& tile, KeySums& sums) {
                slope(shared, at, tile, sums);
              });
  }

 private:
  static constexpr int kWeigher = 0, kSloper = 1;

  /// Where a consumer is in the rings.
  struct Place {
    QueryPosition q;
    GradPosition grad;
    int step = 0;  // of all tiles

    TW_PTX void next() {
      q.next();
      grad.next();
      ++step;
    }
    /// Of what has one buffer, and of what has two.
    TW_PTX uint32_t phase() const { return uint32_t(step) & 1; }
    TW_PTX uint32_t pair_phase() const { return uint32_t(step / 2) & 1; }
    /// Piece `i` of the step, of all that the consumer hands over.
    TW_PTX int piece(int i) const { return step * kPieces + i; }
  };

  /// All tiles; pass(walk, tile, sums) leaves what is to be stored times `factor`.
  template <class F>
  TW_PTX void pass_keys(Shared& shared, const AttentionRows<T>& to, int dims, float factor,
                        const F& pass) const {
    uint32_t phase = 0;
    for (Walk walk(given); walk.more(); walk.next()) {
      const AttentionBackwardTile tile = walk.order().tile(walk.key_block());
      KeySums sums = {};
      if (tile.steps > 0) {
        shared.k_full[0].wait(phase);
        shared.v_full.wait(phase);
        phase ^= 1;
        pass(walk, tile, sums);
        release(shared.k_empty[0]);
        release(shared.v_empty);
      }
      TW_UNROLL
      for (int i = 0; i < kDims / 2; ++i) sums[i] *= factor;
      put_rows(walk, walk.key_block() * kKeys, to, dims, sums);
    }
  }

  // ---- weights

  TW_PTX void weigh(Shared& shared, Place& at, const Walk& walk, const AttentionBackwardTile& tile,
                    KeySums& v_sum) const {
    using namespace tile::cuda;
    Scores scores;
    QuerySums q_sum;
    multiply_scores(shared, at.q, scores);
    wgmma_wait<0>();
    const int first_key = walk.key_block() * kKeys;
    const Order order = walk.order();
    const AttentionInterval inner = order.all_seeing(first_key, first_key + kKeys - 1);
    int i = 0;
    for (; i < tile.steps - 1; ++i)
      weigh_block<false>(shared, at, order, first_key, inner, i > 0, scores, q_sum, v_sum);
    weigh_block<true>(shared, at, order, first_key, inner, i > 0, scores, q_sum, v_sum);
    wgmma_wait<0>();
    put_second(shared, at.step - 1, kWeigher, q_sum);
  }

  TW_PTX static void multiply_scores(Shared& shared, const QueryPosition& at, Scores& scores) {
    using namespace tile::cuda;
    shared.q_full[at.index].wait(at.phase);
    pin(scores);
    wgmma_fence();
    multiply_rows(shared.k[0], shared.q[at.index], scores);
    wgmma_commit();
  }

  /// One block of queries, whose scores are there; the next one's are when it returns. The second
  /// piece of its share of the queries' gradients is still multiplied then.
  template <bool kLast>
  TW_PTX void weigh_block(Shared& shared, Place& at, const Order& order, int first_key,
                          const AttentionInterval& inner, int started, Scores& scores,
                          QuerySums& q_sum, KeySums& v_sum) const {
    using namespace tile::cuda;
    const Place here = at;
    at.next();
    const int block = shared.blocks[here.q.index];
    pin(scores);
    Weights weights;
    if (given.score_scale != 0) cap_scores(scores, given.score_scale);
    if (block < inner.begin || block >= inner.end) Base::mask(order, first_key, block, scores);
    Base::weigh(shared.rows[here.q.index][0], scores, weights);
    release(shared.q_empty[here.q.index]);
    shared.exchange.weights_empty.wait(here.phase() ^ 1);
    Base::put_weights(shared.exchange.weights, scores);
    release(shared.exchange.weights_full);
    shared.grad_full[here.grad.index].wait(here.grad.phase);
    wgmma_wait<0>();
    pin(v_sum);
    wgmma_fence();
    multiply_fragment(weights, shared.grad[here.grad.index], v_sum);
    wgmma_commit();
    if (!kLast) multiply_scores(shared, at.q, scores);
    if (started) put_second(shared, here.step - 1, kWeigher, q_sum);
    wgmma_wait<kLast ? 0 : 1>();
    pin(v_sum);
    release(shared.grad_empty[here.grad.index]);
    multiply_piece(shared, here, kWeigher, 0, q_sum);
    finish_first(shared, here, kWeigher, q_sum);
    pin(scores);
    multiply_piece(shared, here, kWeigher, 1, q_sum);
  }

  // ---- slopes

  TW_PTX void slope(Shared& shared, Place& at, const AttentionBackwardTile& tile,
                    KeySums& k_sum) const {
    Scores products;
    multiply_products(shared, at.grad, products);
    int i = 0;
    for (; i < tile.steps - 1; ++i) slope_block<false>(shared, at, products, k_sum);
    slope_block<true>(shared, at, products, k_sum);
  }

  TW_PTX static void multiply_products(Shared& shared, const GradPosition& at, Scores& products) {
    using namespace tile::cuda;
    shared.grad_full[at.index].wait(at.phase);
    pin(products);
    wgmma_fence();
    multiply_rows(shared.v, shared.grad[at.index], products);
    wgmma_commit();
  }

  /// One block of queries, whose products of gradients and values are under way, and the next one's
  /// when it returns.
  template <bool kLast>
  TW_PTX void slope_block(Shared& shared, Place& at, Scores& products, KeySums& k_sum) const {
    using namespace tile::cuda;
    const Place here = at;
    at.next();
    Scores weights;
    shared.exchange.weights_full.wait(here.phase());
    Base::get_weights(shared.exchange.weights, weights);
    release(shared.exchange.weights_empty);
    shared.q_full[here.q.index].wait(here.q.phase);
    wgmma_wait<0>();
    pin(products);
    release(shared.grad_empty[here.grad.index]);
    Weights slopes;
    Base::slope(weights, products, shared.rows[here.q.index][1], slopes);
    shared.exchange.slopes_empty[here.step % 2].wait(here.pair_phase() ^ 1);
    Base::store_slopes(shared.slopes[here.step % 2], 0, slopes);
    fence_async_shared();
    release(shared.slopes_full[here.step % 2]);
    pin(k_sum);
    wgmma_fence();
    multiply_fragment(slopes, shared.q[here.q.index], k_sum);
    wgmma_commit();
    QuerySums q_sum;
    multiply_piece(shared, here, kSloper, 0, q_sum);
    wgmma_wait<1>();
    pin(k_sum);
    release(shared.q_empty[here.q.index]);
    finish_first(shared, here, kSloper, q_sum);
    multiply_piece(shared, here, kSloper, 1, q_sum);
    if (!kLast) multiply_products(shared, at.grad, products);
    wgmma_wait<kLast ? 0 : 1>();
    put_second(shared, here.step, kSloper, q_sum);
  }

  // ---- the queries' gradients

  TW_PTX static void multiply_piece(Shared& shared, const Place& here, int consumer, int piece,
                                    QuerySums& sums) {
    using namespace tile::cuda;
    if (piece == 0) shared.slopes_full[here.step % 2].wait(here.pair_phase());
    pin(sums);
    wgmma_fence();
    multiply_keys(shared.slopes[here.step % 2], shared.k[0], consumer * kPieces + piece, sums);
    wgmma_commit();
  }
  TW_PTX static void finish_first(Shared& shared, const Place& here, int consumer,
                                  QuerySums& sums) {
    wait_sums(shared, consumer, here.piece(0));
    tile::cuda::wgmma_wait<0>();
    tile::cuda::pin(sums);
    put_sums(shared, consumer, here.piece(0), sums);
    hand_sums(shared, consumer, here.piece(0));
  }
  /// The last piece of a step, multiplied.
  TW_PTX static void put_second(Shared& shared, int step, int consumer, QuerySums& sums) {
    tile::cuda::pin(sums);
    release(shared.exchange.slopes_empty[step % 2]);
    const int piece = step * kPieces + 1;
    wait_sums(shared, consumer, piece);
    put_sums(shared, consumer, piece, sums);
    hand_sums(shared, consumer, piece);
  }
};

}  // namespace tw::kernels
