// The sum over splits of the keys: out = sum of exp(lse_s - lse) out_s, a warp for each row.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class T>
struct AttentionCombine {
  static constexpr int kThreads = kAttentionCombineThreads, kRowsPerBlock = kThreads / 32;
  const AttentionArguments<T>& given;
  int64_t rows;  // queries of all sequences times heads

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / 32;
    if (row >= rows) return;
    const int64_t query = row / given.q_heads;
    const int head = int(row - query * given.q_heads);
    int64_t batch = 0, inside = query;
    if (given.q_offsets) {
      if (query < given.q_offsets(0) || query >= given.q_offsets(given.sequences)) return;
    } else {
      batch = query / given.queries;
      inside = query - batch * given.queries;
    }
    const float lse = total(query, head);
    put(query, head, lse, given.rows.at(batch, inside, head));
    if (given.lse && threadIdx.x % 32 == 0) *given.lse.at(batch, inside, head) = lse;
  }

 private:
  TW_PTX float part(int split, int64_t query, int head) const {
    return *given.partial_lse.at(split, query, head);
  }

  /// The logarithm of the sum of all weights, the sink's too.
  TW_PTX float total(int64_t query, int head) const {
    using attention_sm90::kLow;
    const float sink = given.sinks ? given.sinks(head) : kLow;
    float top = sink;
    for (int s = int(threadIdx.x) % 32; s < given.order.splits; s += 32)
      top = fmaxf(top, part(s, query, head));
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    if (top == kLow) return kLow;
    float sum = 0;
    for (int s = int(threadIdx.x) % 32; s < given.order.splits; s += 32)
      sum += __expf(part(s, query, head) - top);
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    return top + __logf(sum + __expf(sink - top));
  }

  TW_PTX void put(int64_t query, int head, float lse, T* to) const {
    for (int c = int(threadIdx.x) % 32; c < given.value_dims; c += 32) {
      float sum = 0;
      for (int s = 0; s < given.order.splits; ++s) {
        const float mine = part(s, query, head);
        if (mine != attention_sm90::kLow)  // or nothing was put
          sum += __expf(mine - lse) * given.partials.at(s, query, head)[c];
      }
      to[c] = T(sum);
    }
  }
};

}  // namespace tw::kernels
