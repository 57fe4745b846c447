// Before and after the products of attention's backward on Hopper: what each query needs besides
// its row, and the gradients of queries from their sums.
#pragma once

#include "tilewright/kernels/attention_backward_order_sm90.h"
#include "tilewright/tile/cuda/fragment_rows.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

/// A block of threads for each block of queries: lse in powers of two, and grad · out, where eight
/// lanes have a row. What does not exist weighs nothing. Also the order of additions.
template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardRows {
  static constexpr int kThreads = 256, kLanes = 8, kQueries = kBuild.queries;
  const AttentionBackwardArguments<T>& given;

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int64_t place = blockIdx.x, row = place / given.query_blocks;
    const int block = int(place - row * given.query_blocks);
    const int batch = int(row / given.q_heads), head = int(row - int64_t{batch} * given.q_heads);
    float* const to = given.rows + place * 2 * kQueries;
    if (threadIdx.x == 0) given.added[place] = 0;
    for (int i = int(threadIdx.x) / kLanes; i < kQueries; i += kThreads / kLanes) {
      const int query = block * kQueries + i;
      const float sum = query < given.queries ? product(batch, query, head) : 0;
      if (threadIdx.x % kLanes != 0) continue;
      constexpr float kLog2E = 1.4426950408889634f, kHigh = __builtin_inff();
      const float lse = query < given.queries ? given.lse(batch, head, query) : -kHigh;
      to[i] = lse == -kHigh ? kHigh : lse * kLog2E;  // a row that sees nothing weighs nothing
      to[kQueries + i] = sum;
    }
    const int kv_head = head / given.group, within = head - kv_head * given.group;
    if (kv_head == 0 && batch < given.rank_batches()) put_ranks(batch, within, block);
  }

 private:
  /// A round of blocks of keys at a time.
  TW_PTX void put_ranks(int batch, int within, int block) const {
    __shared__ int times[2 * kMostAttentionRing];
    const AttentionBackwardOrder<kQueries, kBuild.kKeys, T> order{given, given.kv_len(batch)};
    const AttentionInterval all = order.key_blocks(block);
    int* const to = given.ranks + given.rank_place(batch, within, block);
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

/// A block of threads for each block of queries: what its consumers left, scaled and rounded.
template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardQueries {
  static constexpr int kQueries = kBuild.queries, kConsumers = kBuild.kConsumers;
  static constexpr int kThreads = 128 * kConsumers, kRows = 64;
  static constexpr int kPartDims = kBuild.dims / kConsumers, kOfThread = kRows * kPartDims / 128;
  const AttentionBackwardArguments<T>& given;

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int64_t place = blockIdx.x, row = place / given.query_blocks;
    const int block = int(place - row * given.query_blocks);
    const int batch = int(row / given.q_heads), head = int(row - int64_t{batch} * given.q_heads);
    const AttentionInterval blocks =
        AttentionBackwardOrder<kQueries, kBuild.kKeys, T>{given, given.kv_len(batch)}.key_blocks(
            block);
    const int thread = int(threadIdx.x) % 128, part = int(threadIdx.x) / 128;
    float sums[kOfThread] = {};
    if (blocks.begin < blocks.end) {
      const auto* const from = reinterpret_cast<const float4*>(given.q_sums) +
                               (place * kConsumers + part) * (kRows * kPartDims / 4) + thread;
      TW_UNROLL
      for (int i = 0; i < kOfThread; i += 4) {
        const float4 four = from[i / 4 * 128];
        sums[i] = four.x * given.scale, sums[i + 1] = four.y * given.scale;
        sums[i + 2] = four.z * given.scale, sums[i + 3] = four.w * given.scale;
      }
    }
    const int first = block * kQueries + thread / 32 * 16 + thread % 32 / 4;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int query = first + 8 * r;
      T* const to = query < given.queries ? given.q_grad.at(batch, query, head) : nullptr;
      TW_UNROLL
      for (int i = 0; i < kPartDims / 8; i += 4)
        tile::cuda::store_fragment_row(to, part * kPartDims + 8 * i, given.dims,
                                       sums + 4 * i + 2 * r);
    }
  }
};

}  // namespace tw::kernels
