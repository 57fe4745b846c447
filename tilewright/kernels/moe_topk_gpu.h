// The schedule of moe_topk.h on a GPU for few experts: each lane of a warp, or of a part of it, has
// keys of some in registers. The largest key of all lanes, and of equal ones the first, is found by
// reductions of whole numbers and struck out, top_k times; lane k remembers the k-th.
#pragma once

#include "tilewright/kernels/moe_scores.h"
#include "tilewright/kernels/select.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class P, class T>
struct MoeTopkOnGpu {
  static constexpr int kWarp = 32, kMostEach = 16;

  const View<const T, 2>& gating;
  int64_t top_k;
  const View<const float, 1>& bias;
  bool is_sigmoid, renormalize;
  const View<float, 2>& weights;
  const View<int32_t, 2>& ids;

  TW_INLINE int64_t experts() const { return gating.size(1); }
  TW_INLINE bool takes() const { return experts() <= kWarp * kMostEach && top_k <= kWarp; }
  TW_INLINE tile::Plan plan() const {
    int64_t lanes = 1;
    while (lanes < kWarp && lanes < experts()) lanes *= 2;
    return tile::plan_of(gating.size(0)).over_threads(lanes);
  }

#if defined(__CUDACC__)
  __device__ __forceinline__ void operator()(P p) const {
    const int each = int(experts() + p.threads() - 1) / p.threads();
    if (each <= 1) return choose<1>(p);
    if (each <= 2) return choose<2>(p);
    if (each <= 4) return choose<4>(p);
    if (each <= 8) return choose<8>(p);
    choose<kMostEach>(p);
  }

 private:
  /// What scores of a token are made with.
  struct Scores {
    float high = 0, total = 1;  // the largest, and the sum; of sigmoids neither counts
    bool is_sigmoid;

    __device__ __forceinline__ float operator()(float gate) const {
      return is_sigmoid ? 1.0f / (1.0f + tile::exp(0.0f - gate)) : tile::exp(gate - high) / total;
    }
  };
  template <int kEach>
  __device__ __forceinline__ Scores scores_of(P p, const float (&gates)[kEach]) const {
    Scores out{.is_sigmoid = is_sigmoid};
    if (is_sigmoid) return out;
    float high = gates[0], total = 0;
    TW_UNROLL
    for (int j = 1; j < kEach; ++j) high = tile::Max::combine(high, gates[j]);
    out.high = tile::reduce_threads(p, tile::Max{}, high);
    TW_UNROLL
    for (int j = 0; j < kEach; ++j) total += tile::exp(gates[j] - out.high);
    out.total = tile::reduce_threads(p, tile::Sum{}, total);
    return out;
  }
  /// What is compared, as a whole number, of what can still be chosen: > 0.
  __device__ __forceinline__ static uint32_t key_of(float v) {
    return RankSelect::ordered_bits(v > kLowestGate ? v + 0.0f : kLowestGate);  // -0 is 0
  }

  template <int kEach>
  __device__ __forceinline__ void choose(P p) const {
    const int lanes = p.threads(), lane = p.thread(), count = int(experts());
    const unsigned mask = p.mask();
    const View<const T, 1> row = gating[p.index()];
    float gates[kEach];
    TW_UNROLL
    for (int j = 0; j < kEach; ++j) {
      const int e = j * lanes + lane;
      gates[j] = e < count ? float(row(e)) : -__builtin_inff();
    }
    const Scores score = scores_of(p, gates);
    uint32_t keys[kEach];
    TW_UNROLL
    for (int j = 0; j < kEach; ++j) {
      const int e = j * lanes + lane;
      keys[j] = e >= count ? 0 : key_of(bias ? score(gates[j]) + bias(e) : gates[j]);
    }
    int mine = 0;
    TW_ROLLED
    for (int k = 0; k < int(top_k); ++k) {
      uint32_t best = 0, at = ~0u;
      TW_UNROLL
      for (int j = 0; j < kEach; ++j) best = keys[j] > best ? keys[j] : best;
      best = __reduce_max_sync(mask, best);
      TW_UNROLL
      for (int j = kEach - 1; j >= 0; --j)
        if (keys[j] == best) at = uint32_t(j * lanes + lane);
      at = __reduce_min_sync(mask, at);
      TW_UNROLL
      for (int j = 0; j < kEach; ++j)
        if (at == uint32_t(j * lanes + lane)) keys[j] = 0;
      if (lane == k) mine = int(at);
    }
    const bool is_chosen = lane < top_k;
    float weight = is_chosen ? score(float(row(mine))) : 0.0f;
    if (renormalize) weight /= tile::reduce_threads(p, tile::Sum{}, weight);
    if (!is_chosen) return;
    weights(p.index(), lane) = weight;
    ids(p.index(), lane) = mine;
  }
#endif
};

}  // namespace tw::kernels
