// Gradients of attention on Hopper, after FlashAttention-3 (arXiv:2407.08608, section 3 and its
// code's backward): formulas in attention_backward.h.
//
// A block has 128 keys and their values in shared memory and passes by the blocks of queries that
// see them. Scores and weights are computed turned, keys x queries: each of two consumer warpgroups
// has 64 keys, whose weights and slopes stay in registers as left operands of the products that
// become the gradients of values and keys. Slopes also go to shared memory, whence both consumers
// compute a half each of the queries' gradients. Those are added up in global memory by bulk
// copies, in an order that does not depend on timing (attention_backward_order_sm90.h).
//
// Warps of the first warpgroup: 0 loads, 1 and 2 add to the queries' gradients, every other step.
#pragma once

#include "tilewright/kernels/attention_backward_order_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/kernels/attention_store_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/tma.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardSm90 {
  static constexpr int kDims = kBuild.dims, kQueries = kBuild.queries, kKeys = kBuild.kKeys;
  static constexpr int kStages = kBuild.kStages, kConsumers = kBuild.kConsumers;
  static constexpr int kThreads = kBuild.kThreads, kWarpgroup = 128, kRows = 64, kRowBytes = 128;
  static constexpr int kChunk = 64, kChunks = kDims / kChunk;  // columns in 128 bytes
  static constexpr int kKeyChunk = kKeys * kRowBytes, kQueryChunk = kQueries * kRowBytes;
  static constexpr int kPartDims = kDims / kConsumers;  // of queries' gradients
  static constexpr int kPart = kQueries * kPartDims;
  static_assert(kQueries == kRows);
  static constexpr int kAdders = 2;   // warps, and the buffers that they empty
  static constexpr int kMeeting = 1;  // the named barrier of both consumers

  using Arguments = AttentionBackwardArguments<T>;
  using Order = AttentionBackwardOrder<kQueries, kKeys, T>;
  using Walk = AttentionBackwardWalk<T>;
  const Arguments& given;

  struct alignas(1024) Shared {
    char k[kBuild.key_bytes()], v[kBuild.key_bytes()];
    char q[kStages][kBuild.query_bytes()], grad[kStages][kBuild.query_bytes()];
    char slopes[2][kBuild.slope_bytes()];
    float sums[kAdders][kConsumers][kPart];
    float rows[kStages][2][kQueries];  // lse; grad · out
    tile::cuda::Mbarrier k_full, v_full, tail_full, keys_empty;
    tile::cuda::Mbarrier q_full[kStages], q_empty[kStages], grad_full[kStages], grad_empty[kStages];
    tile::cuda::Mbarrier sums_full[kAdders][kConsumers], sums_empty[kAdders][kConsumers];
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes());

  /// A place in the rings of queries and of gradients.
  struct Position {
    int index = 0;
    uint32_t phase = 0;

    TW_PTX void next() {
      if (++index == kStages) {
        index = 0;
        phase ^= 1;
      }
    }
  };

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
      shared.k_full.init(1);
      shared.v_full.init(1);
      shared.tail_full.init(1);
      shared.keys_empty.init(kConsumers);
      for (int i = 0; i < kStages; ++i) {
        shared.q_full[i].init(1);
        shared.grad_full[i].init(1);
        shared.q_empty[i].init(kConsumers);
        shared.grad_empty[i].init(kConsumers);
      }
      for (int i = 0; i < kAdders * kConsumers; ++i) {
        shared.sums_full[i / kConsumers][i % kConsumers].init(kWarpgroup);
        shared.sums_empty[i / kConsumers][i % kConsumers].init(1);
      }
      fence_barrier_init();
    }
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<24>();
      if (warp == 0) produce(shared);
      if (warp >= 1 && warp <= kAdders) add(shared, warp - 1);
    } else {
      take_registers<240>();
      consume(shared, warpgroup - 1);
    }
  }

  // ---- the producer: one warp, of which one thread issues

  TW_PTX void produce(Shared& shared) const {
    Position q, grad;
    uint32_t phase = 0, tail_phase = 0;
    for (Walk walk(given); walk.more(); walk.next()) {
      const AttentionBackwardTile tile =
          Order{given, given.kv_len(walk.batch())}.tile(walk.key_block());
      if (tile.steps == 0) continue;
      load_keys(shared, walk, phase, tail_phase);
      phase ^= 1;
      for (int step = 0; step < tile.steps; ++step) {
        const auto [within, block] = tile.at(step);
        const int head = walk.kv_head() * given.group + within;
        const float* const rows =
            given.rows + given.place(walk.batch(), head, block) * 2 * kQueries;
        load_block(shared.q[q.index], given.q, shared.q_full[q.index], shared.q_empty[q.index], q,
                   walk.batch(), head, block, shared.rows[q.index][0], rows);
        load_block(shared.grad[grad.index], given.grad, shared.grad_full[grad.index],
                   shared.grad_empty[grad.index], grad, walk.batch(), head, block,
                   shared.rows[grad.index][1], rows + kQueries);
      }
    }
  }

  /// A block of queries, or of their gradients, and a number for each.
  TW_PTX static void load_block(char* smem, const tile::cuda::TensorMap& map,
                                tile::cuda::Mbarrier& full, tile::cuda::Mbarrier& empty,
                                Position& at, int batch, int head, int block, float* numbers,
                                const float* from) {
    using namespace tile::cuda;
    if (elect_one()) {
      empty.wait(at.phase ^ 1);
      full.arrive_expect(kBuild.query_bytes() + kQueries * int(sizeof(float)));
      TW_UNROLL
      for (int c = 0; c < kChunks; ++c) TW_UNROLL
      for (int i = 0; i < kQueries; i += kRows)
        load_box(smem + c * kQueryChunk + i * kRowBytes, map, full, c * kChunk,
                 block * kQueries + i, head, batch);
      load_bulk(numbers, from, kQueries * int(sizeof(float)), full);
    }
    __syncwarp();
    at.next();
  }

  TW_PTX void load_keys(Shared& shared, const Walk& walk, uint32_t phase,
                        uint32_t& tail_phase) const {
    using namespace tile::cuda;
    const int there = given.kv_len(walk.batch()) - walk.key_block() * kKeys;
    const bool tail = given.kv_lens && there < kKeys;
    if (elect_one()) {
      shared.keys_empty.wait(phase ^ 1);
      if (tail) {
        shared.tail_full.arrive_expect(2 * kBuild.key_bytes());
      } else {
        shared.k_full.arrive_expect(kBuild.key_bytes());
        shared.v_full.arrive_expect(kBuild.key_bytes());
      }
      load_key_block(shared.k, given.k, tail ? shared.tail_full : shared.k_full, walk);
      load_key_block(shared.v, given.v, tail ? shared.tail_full : shared.v_full, walk);
    }
    __syncwarp();
    if (!tail) return;
    // What follows the last key is not the sequence's: zero times what lies there may be NaN.
    shared.tail_full.wait(tail_phase);
    tail_phase ^= 1;
    clear_rows(shared.k, there);
    clear_rows(shared.v, there);
    fence_async_shared();
    __syncwarp();
    if (elect_one()) {
      shared.k_full.arrive();
      shared.v_full.arrive();
    }
    __syncwarp();
  }
  TW_PTX static void load_key_block(char* smem, const tile::cuda::TensorMap& map,
                                    tile::cuda::Mbarrier& full, const Walk& walk) {
    TW_UNROLL
    for (int c = 0; c < kChunks; ++c) TW_UNROLL
    for (int i = 0; i < kKeys; i += kRows)
      tile::cuda::load_box(smem + c * kKeyChunk + i * kRowBytes, map, full, c * kChunk,
                           walk.key_block() * kKeys + i, walk.kv_head(), walk.batch());
  }

  TW_PTX static void clear_rows(char* smem, int first) {
    const int count = (kKeys - first) * (kRowBytes / 16);
    for (int c = 0; c < kChunks; ++c)
      for (int i = int(threadIdx.x) % 32; i < count; i += 32)
        reinterpret_cast<uint4*>(smem + c * kKeyChunk + first * kRowBytes)[i] = {0, 0, 0, 0};
  }

  // ---- the warps that add to the queries' gradients

  TW_PTX void add(Shared& shared, int adder) const {
    using namespace tile::cuda;
    int turn = 0;  // of all steps
    for (Walk walk(given); walk.more(); walk.next()) {
      const Order order{given, given.kv_len(walk.batch())};
      const AttentionBackwardTile tile = order.tile(walk.key_block());
      for (int step = 0; step < tile.steps; ++step, ++turn) {
        if (turn % kAdders != adder) continue;
        const AttentionBackwardTile::Step at = tile.at(step);
        const int rank = order.rank(walk.key_block(), tile, at);
        const int head = walk.kv_head() * given.group + at.head;
        const int64_t place = given.place(walk.batch(), head, at.block);
        if (elect_one()) add_block(shared, adder, turn / kAdders, rank, place);
        __syncwarp();
      }
    }
  }
  TW_PTX void add_block(Shared& shared, int adder, int turn, int rank, int64_t place) const {
    using namespace tile::cuda;
    constexpr int kBytes = kPart * int(sizeof(float));
    int* const added = given.added + place;
    float* const to = given.q_sums + place * kBuild.sum_count();
    while (load_acquire(added) != rank) {
    }
    fence_async_global();
    TW_UNROLL
    for (int i = 0; i < kConsumers; ++i) {
      shared.sums_full[adder][i].wait(uint32_t(turn) & 1);
      if (rank == 0)
        store_bulk(to + i * kPart, shared.sums[adder][i], kBytes);
      else
        add_bulk(to + i * kPart, shared.sums[adder][i], kBytes);
      commit_stores();
    }
    wait_stores_read<1>();
    shared.sums_empty[adder][0].arrive();
    wait_stores_read<0>();
    shared.sums_empty[adder][1].arrive();
    wait_stores_done<0>();
    fence_async_global();
    add_release(added, 1);
  }

  // ---- the consumers

  using Scores = float[kQueries / 2];  // of 64 keys and a block of queries
  using Weights = uint32_t[kQueries / 4];
  using KeySums = float[kDims / 2];  // of 64 keys
  using QuerySums = float[kPart / kWarpgroup];

  TW_PTX void consume(Shared& shared, int consumer) const {
    Position at;
    uint32_t phase = 0;
    int step = 0;  // of all tiles
    for (Walk walk(given); walk.more(); walk.next()) {
      const AttentionBackwardTile tile =
          Order{given, given.kv_len(walk.batch())}.tile(walk.key_block());
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
    const int keys = given.kv_len(walk.batch());
    int i = 0;
    for (; i < tile.steps - 1; ++i)
      pass_block<false>(shared, at, step++, keys, first_key, tile.at(i).block, i > 0, consumer,
                        scores, k_sum, v_sum);
    pass_block<true>(shared, at, step++, keys, first_key, tile.at(i).block, i > 0, consumer, scores,
                     k_sum, v_sum);
  }

  /// One block of queries, whose scores are there; those of the next one are computed beside.
  template <bool kLast>
  TW_PTX void pass_block(Shared& shared, Position& at, int step, int keys, int first_key, int block,
                         int started, int consumer, Scores& scores, KeySums& k_sum,
                         KeySums& v_sum) const {
    using namespace tile::cuda;
    const int row_bytes = consumer * kRows * kRowBytes;
    const Position here = at;
    at.next();
    Scores products;
    shared.grad_full[here.index].wait(here.phase);
    pin(products);
    wgmma_fence();
    multiply_rows(shared.v + row_bytes, shared.grad[here.index], products);
    wgmma_commit();
    Weights weights, slopes;
    weigh(keys, first_key, block, shared.rows[here.index][0], scores, weights);
    pin(v_sum);
    wgmma_fence();
    multiply_fragment(weights, shared.grad[here.index], v_sum, started);
    wgmma_commit();
    wgmma_wait<1>();
    pin(products);
    slope(scores, products, shared.rows[here.index][1], slopes);
    pin(k_sum);
    wgmma_fence();
    multiply_fragment(slopes, shared.q[here.index], k_sum, started);
    wgmma_commit();
    store_slopes(shared.slopes[step % 2], consumer, slopes);
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
    const int adder = step % kAdders;
    shared.sums_empty[adder][consumer].wait((uint32_t(step / kAdders) & 1) ^ 1);
    wgmma_wait<kLast ? 0 : 1>();
    pin(q_sum);
    auto* const to = reinterpret_cast<float4*>(shared.sums[adder][consumer]);
    TW_UNROLL
    for (int i = 0; i < kPart / kWarpgroup; i += 4)
      to[i / 4 * kWarpgroup + int(threadIdx.x) % kWarpgroup] = {q_sum[i], q_sum[i + 1],
                                                                q_sum[i + 2], q_sum[i + 3]};
    fence_async_shared();
    shared.sums_full[adder][consumer].arrive();
    if (!kLast) {
      wgmma_wait<0>();
      pin(scores);
    }
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

  /// Scores of 64 keys become weights, of which a copy is rounded; what remains are weights times
  /// the slope of the cap.
  TW_PTX void weigh(int keys, int first_key, int block, const float* lse, Scores& scores,
                    Weights& weights) const {
    const Order order{given, keys};
    const int lane = int(threadIdx.x) % 32;
    const bool caps = given.score_scale != 0;
    if (caps) cap_scores(scores, given.score_scale);
    const int first = block * kQueries, last = min(first + kQueries, given.queries) - 1;
    const AttentionInterval of_last = order.seen(last, last), of_first = order.seen(first, first);
    const bool masks = first_key < of_last.begin || first_key + kRows > of_first.end;
    if (masks) {
      const int key = first_key + int(threadIdx.x) % kWarpgroup / 32 * 16 + lane / 4;
      AttentionSpan spans[2];
      TW_UNROLL
      for (int r = 0; r < 2; ++r) {
        const AttentionInterval seeing = key + 8 * r < order.keys
                                             ? order.seeing(key + 8 * r, key + 8 * r)
                                             : AttentionInterval{0, 0};
        const int offset = first + lane % 4 * 2;
        spans[r] = {seeing.begin - offset, seeing.end - offset};
      }
      mask_scores(scores, spans);
    }
    const auto* const logs = reinterpret_cast<const float2*>(lse) + lane % 4;
    if (caps)
      exponentiate<true>(logs, scores, weights);
    else
      exponentiate<false>(logs, scores, weights);
  }
  template <bool kCaps>
  TW_PTX void exponentiate(const float2* logs, Scores& scores, Weights& weights) const {
    TW_UNROLL
    for (int i = 0; i < kQueries / 2; i += 4) {
      const float2 log = logs[i];  // of eight queries a thread has two
      TW_UNROLL
      for (int r = 0; r < 4; r += 2) {
        float weight[2];
        TW_UNROLL
        for (int c = 0; c < 2; ++c) {
          float& score = scores[i + r + c];
          weight[c] = attention_sm90::exp2(
              __fmaf_rn(score, given.exponent_scale, c == 0 ? -log.x : -log.y));
          // A masked score is -inf, where the cap has no slope.
          score = !kCaps ? weight[c] : weight[c] == 0 ? 0 : weight[c] * (1 - score * score);
        }
        weights[(i + r) / 2] = tile::cuda::pack<T>(weight[0], weight[1]);
      }
    }
  }

  /// weights * (grad · v - grad · out), rounded.
  TW_PTX static void slope(const Scores& weights, const Scores& products, const float* deltas,
                           Weights& slopes) {
    const auto* const pairs = reinterpret_cast<const float2*>(deltas) + threadIdx.x % 4;
    TW_UNROLL
    for (int i = 0; i < kQueries / 2; i += 4) {
      const float2 delta = pairs[i];
      TW_UNROLL
      for (int r = 0; r < 4; r += 2)
        slopes[(i + r) / 2] =
            tile::cuda::pack<T>(weights[i + r] * (products[i + r] - delta.x),
                                weights[i + r + 1] * (products[i + r + 1] - delta.y));
    }
  }

  /// Rows are keys, 64 queries of 128 bytes each, swizzled as wgmma reads them.
  TW_PTX static void store_slopes(char* to, int consumer, const Weights& slopes) {
    const int thread = int(threadIdx.x) % kWarpgroup, lane = thread % 32;
    const int row = consumer * kRows + thread / 32 * 16 + lane % 16;
    TW_UNROLL
    for (int i = 0; i < kQueries / 16; ++i) {
      const int unit = 2 * i + lane / 16;  // of 16 bytes
      tile::cuda::store_matrices(to + row * kRowBytes + (unit ^ (row % 8)) * 16, slopes[4 * i],
                                 slopes[4 * i + 1], slopes[4 * i + 2], slopes[4 * i + 3]);
    }
  }

  TW_PTX void put(const Walk& walk, int consumer, KeySums& k_sum, const KeySums& v_sum) const {
    TW_UNROLL
    for (int i = 0; i < kDims / 2; ++i) k_sum[i] *= given.scale;
    const int thread = int(threadIdx.x) % kWarpgroup;
    const int first =
        walk.key_block() * kKeys + consumer * kRows + thread / 32 * 16 + thread % 32 / 4;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int key = first + 8 * r;
      const bool exists = key < given.keys;
      T* const k_row = exists ? given.k_grad.at(walk.batch(), key, walk.kv_head()) : nullptr;
      T* const v_row = exists ? given.v_grad.at(walk.batch(), key, walk.kv_head()) : nullptr;
      TW_UNROLL
      for (int i = 0; i < kDims / 8; i += 4) {
        tile::cuda::store_fragment_row(k_row, 8 * i, given.dims, k_sum + 4 * i + 2 * r);
        tile::cuda::store_fragment_row(v_row, 8 * i, given.value_dims, v_sum + 4 * i + 2 * r);
      }
    }
  }

  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    if (threadIdx.x % kWarpgroup == 0) empty.arrive();
  }
};

}  // namespace tw::kernels
