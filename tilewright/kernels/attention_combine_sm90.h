// The sum over splits of the keys: out = sum of exp(lse_s - lse) out_s. A block has a row, or a
// part of its columns; the lanes of a warp have four columns each, and kWays groups of them share
// the splits. Short code: a launch reads it from memory.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class T, int kWays>
struct AttentionCombine {
  static constexpr int kColumns = 4, kAtOnce = 8;  // of a lane; splits
  static constexpr int kLanes = 32 / kWays;        // that have different columns
  const AttentionArguments<T>& given;

  TW_PTX void operator()() const {
    tile::cuda::wait_for_grids_before();
    tile::cuda::launch_grids_after();
    const int parts = attention_combine_blocks(given.value_dims, kWays);
    const unsigned row = blockIdx.x / unsigned(parts), query = row / unsigned(given.q_heads);
    const int head = int(row - query * unsigned(given.q_heads));
    unsigned batch = 0, inside = query;
    if (given.q_offsets) {
      if (int(query) < given.q_offsets(0) || int(query) >= given.q_offsets(given.sequences)) return;
    } else {
      batch = query / unsigned(given.queries);
      inside = query - batch * unsigned(given.queries);
    }
    const float* const logs = given.partial_lse.at(0, query, head);
    const Total total = add_up(logs, head);
    const int warp =
        int(blockIdx.x) % parts * (kAttentionCombineThreads / 32) + int(threadIdx.x) / 32;
    const int first = (warp * kLanes + lane() % kLanes) * kColumns;
    float sums[kColumns] = {};
    const float* const from = given.partials.at(0, query, head) + first;
    if (given.value_dims % kColumns == 0)
      add<kAtOnce, true>(from, logs, total, first, sums);
    else
      add<1, false>(from, logs, total, first, sums);
    put(sums, first, given.rows.at(batch, inside, head));
    if (given.lse && first == 0 && lane() == 0) *given.lse.at(batch, inside, head) = total.lse;
  }

 private:
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }
  TW_PTX float log_of(const float* logs, int split) const {
    return split < given.order.splits ? logs[split * given.partial_lse.batch_stride]
                                      : attention_sm90::kLow;
  }

  /// exp(lse - base) factor is the share of a split.
  struct Total {
    float base, factor, lse;
  };
  /// Of all splits and the sink.
  TW_PTX Total add_up(const float* logs, int head) const {
    using attention_sm90::kLow;
    const float sink = given.sinks ? given.sinks(head) : kLow;
    float mine[kAttentionMostSplits / 32], top = sink;
    TW_UNROLL
    for (int i = 0; i < kAttentionMostSplits / 32; ++i) {
      mine[i] = log_of(logs, lane() + 32 * i);
      top = fmaxf(top, mine[i]);
    }
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    const float base = top == kLow ? 0 : top;  // -inf - -inf is NaN, but these weigh nothing
    float sum = 0;
    TW_UNROLL
    for (int i = 0; i < kAttentionMostSplits / 32; ++i) sum += __expf(mine[i] - base);
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    sum += __expf(sink - base);
    return {base, sum == 0 ? 0 : 1 / sum, base == top ? base + __logf(sum) : kLow};
  }

  struct alignas(16) Four {
    float at[kColumns];
  };
  /// What a split that weighs nothing has left is any memory, NaN too, and not looked at.
  template <int kSplits, bool kWhole>
  TW_PTX void add(const float* from, const float* logs, const Total& total, int first,
                  float (&sums)[kColumns]) const {
    TW_NO_UNROLL
    for (int base = lane() / kLanes; base < given.order.splits; base += kSplits * kWays) {
      float parts[kSplits][kColumns] = {}, shares[kSplits];
      TW_UNROLL
      for (int j = 0; j < kSplits; ++j) {
        const int split = base + j * kWays;
        shares[j] = log_of(logs, split);
        if (split < given.order.splits)
          load<kWhole>(from + split * given.partials.batch_stride, first, parts[j]);
      }
      TW_UNROLL
      for (int j = 0; j < kSplits; ++j) {
        const bool weighs = shares[j] != attention_sm90::kLow;
        const float share = __expf(shares[j] - total.base) * total.factor;
        TW_UNROLL
        for (int c = 0; c < kColumns; ++c) sums[c] += weighs ? share * parts[j][c] : 0;
      }
    }
  }
  template <bool kWhole>
  TW_PTX void load(const float* from, int first, float (&out)[kColumns]) const {
    if constexpr (kWhole) {
      if (first >= given.value_dims) return;
      const Four four = *reinterpret_cast<const Four*>(from);
      TW_UNROLL
      for (int c = 0; c < kColumns; ++c) out[c] = four.at[c];
    } else {
      TW_UNROLL
      for (int c = 0; c < kColumns; ++c)
        if (first + c < given.value_dims) out[c] = from[c];
    }
  }

  TW_PTX void put(float (&sums)[kColumns], int first, T* to) const {
    TW_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      TW_UNROLL
      for (int step = kLanes; step < 32; step *= 2) sums[c] += __shfl_xor_sync(~0u, sums[c], step);
      if (lane() < kLanes && first + c < given.value_dims) to[first + c] = T(sums[c]);
    }
  }
};

}  // namespace tw::kernels
