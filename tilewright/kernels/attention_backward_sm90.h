// Gradients of attention on Hopper, after FlashAttention-3 (arXiv:2407.08608, section 3 and its
// code's backward): formulas in attention_backward.h.
//
// A block has 128 keys and their values in shared memory and passes by the blocks of queries that
// see them. Scores and weights are computed turned, keys x queries: each of two consumer warpgroups
// has 64 keys, whose weights and slopes stay in registers as left operands of the products that
// become the gradients of values and keys. Slopes also go to shared memory, whence both consumers
// compute a half each of the queries' gradients. Those are added up in global memory by bulk
// copies, in an order that does not depend on timing (attention_backward_order_sm90.h).
#pragma once

#include "tilewright/kernels/attention_backward_feed_sm90.h"
#include "tilewright/kernels/attention_backward_weights_sm90.h"
#include "tilewright/tile/cuda/fragment_rows.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardSm90 : AttentionBackwardWeights<T, kBuild> {
  using Block = AttentionBackwardBlock<T, kBuild>;
  using Base = AttentionBackwardWeights<T, kBuild>;
  using Base::given;
  using Block::kAdders, Block::kChunk, Block::kChunks, Block::kConsumers, Block::kDims;
  using Block::kKeyChunk, Block::kKeys, Block::kMeeting, Block::kPart, Block::kPartDims;
  using Block::kQueries, Block::kQueryChunk, Block::kRowBytes, Block::kRows, Block::kWarpgroup;
  using typename Base::Scores;
  using typename Base::Weights;
  using typename Block::Order;
  using typename Block::Position;
  using typename Block::Shared;
  using typename Block::Walk;

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / kWarpgroup);
    const int warp = uniform(int(threadIdx.x) / 32);
    if (threadIdx.x == 0) {
      prefetch(given.q);
      prefetch(given.k);
      prefetch(given.v);
      prefetch(given.grad);
      Block::init(shared);
    }
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<kBuild.feed_registers()>();
      AttentionBackwardFeed<T, kBuild>{{}, given}(shared, warp);
    } else {
      take_registers<kBuild.consumer_registers()>();
      consume(shared, warpgroup - 1);
    }
  }

  // ---- the consumers

  using KeySums = float[kDims / 2];  // of 64 keys
  using QuerySums = float[kPart / kWarpgroup];

  TW_PTX void consume(Shared& shared, int consumer) const {
    Position at;
    uint32_t phase = 0;
    int step = 0;  // of all tiles
    for (Walk walk(given); walk.more(); walk.next()) {
      const AttentionBackwardTile tile = walk.order().tile(walk.key_block());
      KeySums k_sum, v_sum;
      if (tile.steps == 0) {
        TW_UNROLL
        for (int i = 0; i < kDims / 2; ++i) k_sum[i] = v_sum[i] = 0;
      } else {
        shared.k_full.wait(phase);
        shared.v_full.wait(phase);
        phase ^= 1;
        pass_by(shared, at, step, walk, tile, consumer, k_sum, v_sum);
        release(shared.keys_empty);
      }
      put(walk, consumer, k_sum, v_sum);
    }
  }

  /// All blocks of queries that see the keys.
  TW_PTX void pass_by(Shared& shared, Position& at, int& step, const Walk& walk,
                      const AttentionBackwardTile& tile, int consumer, KeySums& k_sum,
                      KeySums& v_sum) const {
    using namespace tile::cuda;
    Scores scores;
    shared.q_full[at.index].wait(at.phase);
    pin(scores);
    wgmma_fence();
    multiply_rows(shared.k + consumer * kRows * kRowBytes, shared.q[at.index], scores);
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
    hand_sums(shared, step - 1, consumer);
  }

  /// What a step has left in shared memory is there for the copies.
  TW_PTX static void hand_sums(Shared& shared, int step, int consumer) {
    tile::cuda::fence_async_shared();
    shared.sums_full[step % kAdders][consumer].arrive();
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
    if (started) hand_sums(shared, step - 1, consumer);
    Weights weights, slopes;
    if (given.score_scale != 0) cap_scores(scores, given.score_scale);
    if (block < inner.begin || block >= inner.end) Base::mask(order, first_key, block, scores);
    Base::weigh(shared.rows[here.index][0], scores, weights);
    pin(v_sum);
    wgmma_fence();
    multiply_fragment(weights, shared.grad[here.index], v_sum, started);
    wgmma_commit();
    wgmma_wait<1>();
    pin(products);
    Base::slope(scores, products, shared.rows[here.index][1], slopes);
    Base::store_slopes(shared.slopes[step % 2], consumer, slopes);
    pin(k_sum);
    wgmma_fence();
    multiply_fragment(slopes, shared.q[here.index], k_sum, started);
    wgmma_commit();
    fence_async_shared();
    sync_named(kMeeting, kConsumers * kWarpgroup);
    QuerySums q_sum;
    pin(q_sum);
    wgmma_fence();
    multiply_keys(shared.slopes[step % 2], shared.k, consumer, q_sum);
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
      multiply_rows(shared.k + row_bytes, shared.q[at.index], scores);
      wgmma_commit();
    }
    shared.sums_empty[step % kAdders][consumer].wait((uint32_t(step / kAdders) & 1) ^ 1);
    wgmma_wait<kLast ? 0 : 1>();
    pin(q_sum);
    put_sums(shared.sums[step % kAdders][consumer], q_sum);
    if (!kLast) {
      wgmma_wait<0>();
      pin(scores);
    }
  }

  TW_PTX static void put_sums(float* to, const QuerySums& sums) {
    TW_UNROLL
    for (int i = 0; i < kPart / kWarpgroup; i += 4)
      reinterpret_cast<float4*>(to)[i / 4 * kWarpgroup + int(threadIdx.x) % kWarpgroup] = {
          sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
  }

  /// 64 keys or values times a block of queries or of their gradients.
  TW_PTX static void multiply_rows(const char* keys, const char* queries, Scores& out) {
    using namespace tile::cuda;
    constexpr int kSteps = kRowBytes / 32;  // of 16 dims in 128 bytes
    TW_UNROLL
    for (int c = 0; c < kChunks; ++c) TW_UNROLL
    for (int i = 0; i < kSteps; ++i)
      Wgmma<T, kQueries>::mma(out, advance(operand(keys), c * kKeyChunk + i * 32),
                              advance(operand(queries), c * kQueryChunk + i * 32), c + i > 0);
  }
  /// Weights or slopes times the queries' gradients or the queries.
  TW_PTX static void multiply_fragment(const Weights& weights, const char* queries, KeySums& sums,
                                       int keep) {
    using namespace tile::cuda;
    TW_UNROLL
    for (int i = 0; i < kQueries / 16; ++i)
      WgmmaFragment<T, kDims>::mma(sums, weights + 4 * i,
                                   advance(operand(queries, kQueryChunk), i * 16 * kRowBytes),
                                   i > 0 ? 1 : keep);
  }
  /// A consumer's share of the dims of 64 queries: slopes, turned, times keys.
  TW_PTX static void multiply_keys(const char* slopes, const char* k, int consumer,
                                   QuerySums& sums) {
    using namespace tile::cuda;
    const int column = consumer * kPartDims;
    const char* const right = k + column / kChunk * kKeyChunk + column % kChunk * 2;
    TW_UNROLL
    for (int i = 0; i < kKeys / 16; ++i)
      Wgmma<T, kPartDims, true, true>::mma(sums, advance(operand(slopes), i * 16 * kRowBytes),
                                           advance(operand(right), i * 16 * kRowBytes), i > 0);
  }

  TW_PTX void put(const Walk& walk, int consumer, KeySums& k_sum, const KeySums& v_sum) const {
    TW_UNROLL
    for (int i = 0; i < kDims / 2; ++i) k_sum[i] *= given.scale;
    const AttentionBackwardSequence of = walk.order().sequence;
    const int thread = int(threadIdx.x) % kWarpgroup;
    const int first =
        walk.key_block() * kKeys + consumer * kRows + thread / 32 * 16 + thread % 32 / 4;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int key = first + 8 * r;
      const bool exists = key < of.key_rows;
      const int row = of.first_key + key;
      T* const k_row = exists ? given.k_grad.at(of.outer, row, walk.kv_head()) : nullptr;
      T* const v_row = exists ? given.v_grad.at(of.outer, row, walk.kv_head()) : nullptr;
      TW_UNROLL
      for (int i = 0; i < kDims / 8; i += 4) {
        tile::cuda::store_fragment_row(k_row, 8 * i, given.dims, k_sum + 4 * i + 2 * r);
        tile::cuda::store_fragment_row(v_row, 8 * i, given.value_dims, v_sum + 4 * i + 2 * r);
      }
    }
  }

  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) empty.arrive();
  }
};

}  // namespace tw::kernels
