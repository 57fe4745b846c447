// The sum over splits of the keys: out = sum of exp(lse_s - lse) out_s, a block for each row, four
// columns for each thread.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class T>
struct AttentionCombine {
  static constexpr int kThreads = kAttentionCombineThreads, kMostSplits = kAttentionMostSplits;
  static constexpr int kEach = kMostSplits / 32;  // splits of a lane
  static constexpr int kAtOnce = 8, kColumns = 4;
  const AttentionArguments<T>& given;

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int64_t row = blockIdx.x;
    const int64_t query = row / given.q_heads;
    const int head = int(row - query * given.q_heads);
    int64_t batch = 0, inside = query;
    if (given.q_offsets) {
      if (query < given.q_offsets(0) || query >= given.q_offsets(given.sequences)) return;
    } else {
      batch = query / given.queries;
      inside = query - batch * given.queries;
    }
    float weights[kEach];
    const float lse = weigh(query, head, weights);
    put(query, head, weights, given.rows.at(batch, inside, head));
    if (given.lse && threadIdx.x == 0) *given.lse.at(batch, inside, head) = lse;
  }

 private:
  /// Lane l of every warp gets the shares of splits l, l + 32, ...; the sum includes the sink's.
  TW_PTX float weigh(int64_t query, int head, float (&weights)[kEach]) const {
    using attention_sm90::kLow;
    const float sink = given.sinks ? given.sinks(head) : kLow;
    float top = sink;
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int split = int(threadIdx.x) % 32 + 32 * i;
      weights[i] = split < given.order.splits ? *given.partial_lse.at(split, query, head) : kLow;
      top = fmaxf(top, weights[i]);
    }
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    const float base = top == kLow ? 0 : top;  // -inf - -inf is NaN, but these weigh nothing
    float sum = 0;
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      weights[i] = __expf(weights[i] - base);
      sum += weights[i];
    }
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    sum += __expf(sink - base);
    const float factor = sum == 0 ? 0 : 1 / sum;
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) weights[i] *= factor;
    return base == top ? base + __logf(sum) : kLow;
  }

  /// Several splits are read at a time, of several columns.
  TW_PTX void put(int64_t query, int head, const float (&weights)[kEach], T* to) const {
    for (int base = 0; base < given.value_dims; base += kColumns * kThreads) {
      const int first = base + int(threadIdx.x);
      float sums[kColumns] = {};
      TW_UNROLL
      for (int i = 0; i < kEach; ++i) {
        const int count = min(32, given.order.splits - 32 * i);
        for (int lane = 0; lane < count; lane += kAtOnce)
          add(query, head, weights[i], lane, 32 * i, first, sums);
      }
      TW_UNROLL
      for (int c = 0; c < kColumns; ++c)
        if (first + c * kThreads < given.value_dims) to[first + c * kThreads] = T(sums[c]);
    }
  }
  /// Splits lane, lane + 1, ... of those from `base` on; the weights after the last are 0.
  TW_PTX void add(int64_t query, int head, float weights, int lane, int base, int first,
                  float (&sums)[kColumns]) const {
    float parts[kAtOnce][kColumns], shares[kAtOnce];
    TW_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      shares[j] = __shfl_sync(~0u, weights, lane + j);
      const float* const from = given.partials.at(base + lane + j, query, head) + first;
      TW_UNROLL
      for (int c = 0; c < kColumns; ++c)
        parts[j][c] =
            shares[j] != 0 && first + c * kThreads < given.value_dims  // or nothing is there
                ? from[c * kThreads]
                : 0;
    }
    TW_UNROLL
    for (int j = 0; j < kAtOnce; ++j) TW_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] += shares[j] * parts[j][c];
  }
};

}  // namespace tw::kernels
