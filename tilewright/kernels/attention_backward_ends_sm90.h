// Before and after the products of attention's backward on Hopper: what each query needs besides
// its row, and the gradients of queries from their sums.
#pragma once

#include "tilewright/kernels/attention_backward_order_sm90.h"
#include "tilewright/tile/cuda/fragment_rows.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

/// The block of queries of a block of threads.
template <int kQueries, int kKeys, class T>
struct AttentionBackwardPlace {
  using Order = AttentionBackwardOrder<kQueries, kKeys, T>;
  int64_t place;  // in the workspace
  int head, index, block;

  TW_PTX static AttentionBackwardPlace of(const AttentionBackwardArguments<T>& given) {
    const int head = int(blockIdx.x) / given.blocks, at = int(blockIdx.x) - head * given.blocks;
    const int index = given.q_offsets ? search(given, at) : at / given.query_blocks;
    return {blockIdx.x, head, index, at - given.first_block(index, kQueries)};
  }

 private:
  /// The last sequence that begins there or before.
  TW_PTX static int search(const AttentionBackwardArguments<T>& given, int at) {
    int low = 0, high = given.sequences;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (given.first_block(middle, kQueries) <= at ? low : high) = middle;
    }
    return low;
  }
};

/// A block of threads for each block of queries: lse in powers of two, and grad · out, where eight
/// lanes have a row. What does not exist weighs nothing. Also the order of additions, and zero for
/// gradients of what is in no sequence.
template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardRows {
  static constexpr int kThreads = kBuild.kRowThreads, kLanes = 8, kQueries = kBuild.queries;
  static constexpr int kResident = 5;  // blocks of a multiprocessor: enough loads in flight
  using Order = AttentionBackwardOrder<kQueries, kBuild.keys(), T>;
  const AttentionBackwardArguments<T>& given;

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const auto at = AttentionBackwardPlace<kQueries, kBuild.keys(), T>::of(given);
    const Order order = Order::of(given, at.index);
    constexpr int kConsumers = AttentionBackwardBuild::kConsumers;
    if (threadIdx.x < kConsumers) given.added[at.place * kConsumers + int(threadIdx.x)] = 0;
    if (at.block < order.query_blocks()) put_rows(order.sequence, at.place, at.head, at.block);
    const bool leads = given.shares_ranks() ? at.index == 0 : true;
    if (at.head < given.group && leads) put_ranks(order, at.head, at.block);
    if (!given.q_offsets) return;
    clear_outside(given.q_grad, given.q_offsets, given.queries, given.q_heads, given.dims);
    clear_outside(given.k_grad, given.kv_offsets, given.keys, given.kv_heads, given.dims);
    clear_outside(given.v_grad, given.kv_offsets, given.keys, given.kv_heads, given.value_dims);
  }

 private:
  TW_PTX void put_rows(const AttentionBackwardSequence& of, int64_t place, int head,
                       int block) const {
    float* const to = given.rows + place * 2 * kQueries;
    for (int i = int(threadIdx.x) / kLanes; i < kQueries; i += kThreads / kLanes) {
      const int query = block * kQueries + i, row = of.first_query + query;
      const bool exists = query < of.queries;
      const float sum = exists ? product(of.outer, row, head) : 0;
      if (threadIdx.x % kLanes != 0) continue;
      constexpr float kLog2E = 1.4426950408889634f, kHigh = __builtin_inff();
      const float lse = exists ? given.lse(of.outer, head, row) : -kHigh;
      const int at = attention_row_place(i);
      to[at] = lse == -kHigh ? kHigh : lse * kLog2E;  // a row that sees nothing weighs nothing
      to[kQueries + at] = sum;
    }
  }

  /// A round of blocks of keys at a time.
  TW_PTX void put_ranks(const Order& order, int within, int block) const {
    __shared__ int times[2 * kMostAttentionRing];
    const AttentionInterval all = order.key_blocks(block);
    if (all.begin >= all.end) return;
    int* const to = given.ranks + given.rank_place(order.sequence, within, block);
    const int span = order.span();
    for (int round = all.begin / span * span; round < all.end; round += span) {
      const int begin = max(all.begin, round), end = min(all.end, round + span);
      for (int n = begin + int(threadIdx.x); n < end; n += kThreads)
        times[n - round] = order.time(n, {within, block});
      __syncthreads();
      for (int n = begin + int(threadIdx.x); n < end; n += kThreads)
        to[n] = order.rank(n, block, times);
      __syncthreads();
    }
  }

  /// All blocks of threads together, 16 bytes a thread.
  TW_PTX static void clear_outside(const AttentionRows<T>& rows, const View<const int32_t, 1>& of,
                                   int count, int heads, int dims) {
    constexpr int kUnit = 16 / int(sizeof(T));
    const int before = of(0), after = of(of.size(0) - 1);
    const int units = heads * (dims / kUnit), outside = before + count - after;
    for (int i = int(blockIdx.x); i < outside; i += int(gridDim.x)) {
      const int row = i < before ? i : after + i - before;
      for (int n = int(threadIdx.x); n < units; n += kThreads) {
        const int head = n / (dims / kUnit), unit = n - head * (dims / kUnit);
        reinterpret_cast<uint4*>(rows.at(0, row, head))[unit] = {0, 0, 0, 0};
      }
    }
  }

  TW_PTX float product(int batch, int query, int head) const {
    const T* const grad = given.grad_rows.at(batch, query, head);
    const T* const out = given.out_rows.at(batch, query, head);
    float sum = 0;
    for (int d = int(threadIdx.x) % kLanes * 8; d < given.value_dims; d += kLanes * 8) {
      if (d + 8 <= given.value_dims) {
        T left[8], right[8];
        *reinterpret_cast<uint4*>(left) = *reinterpret_cast<const uint4*>(grad + d);
        *reinterpret_cast<uint4*>(right) = *reinterpret_cast<const uint4*>(out + d);
        TW_UNROLL
        for (int i = 0; i < 8; ++i) sum = __fmaf_rn(float(left[i]), float(right[i]), sum);
      } else {
        for (int i = d; i < given.value_dims; ++i)
          sum = __fmaf_rn(float(grad[i]), float(out[i]), sum);
      }
    }
    // Lanes of a row go through the loop together: eight of them make the shuffle's mask.
    const unsigned mask = 0xffu << (threadIdx.x % 32 / kLanes * kLanes);
    TW_UNROLL
    for (int step = 1; step < kLanes; step *= 2) sum += __shfl_xor_sync(mask, sum, step);
    return sum;
  }
};

/// A block of threads for each block of queries: the parts that consumers left, scaled and rounded.
template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardQueries {
  static constexpr int kQueries = kBuild.queries, kParts = kBuild.parts();
  static constexpr int kThreads = kBuild.query_threads();
  static constexpr int kPartDims = kBuild.part_dims(), kOfThread = kBuild.part_count() / 128;
  const AttentionBackwardArguments<T>& given;

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    using Order = AttentionBackwardOrder<kQueries, kBuild.keys(), T>;
    const auto at = AttentionBackwardPlace<kQueries, kBuild.keys(), T>::of(given);
    const Order order = Order::of(given, at.index);
    const AttentionBackwardSequence& of = order.sequence;
    if (at.block >= order.query_blocks()) return;
    const AttentionInterval blocks = order.key_blocks(at.block);
    const int thread = int(threadIdx.x) % 128, part = int(threadIdx.x) / 128;
    float sums[kOfThread] = {};
    if (blocks.begin < blocks.end) {
      const auto* const from = reinterpret_cast<const float4*>(given.q_sums) +
                               (at.place * kParts + part) * (kBuild.part_count() / 4) + thread;
      TW_UNROLL
      for (int i = 0; i < kOfThread; i += 4) {
        const float4 four = from[i / 4 * 128];
        sums[i] = four.x * given.scale, sums[i + 1] = four.y * given.scale;
        sums[i + 2] = four.z * given.scale, sums[i + 3] = four.w * given.scale;
      }
    }
    const int first = at.block * kQueries + thread / 32 * 16 + thread % 32 / 4;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int query = first + 8 * r;
      T* const to =
          query < of.queries
              ? given.q_grad.at(of.outer, of.first_query + query, at.head) + part * kPartDims
              : nullptr;
      tile::cuda::store_fragment_row<T, kPartDims>(to, given.dims - part * kPartDims, sums + 2 * r);
    }
  }
};

}  // namespace tw::kernels
