// The elements that match, on CUDA: who looks for them, and how many are before each. The names and
// meanings are those of tile/cpu/primitives.h. Freestanding.
#pragma once

#include "tilewright/tile/cuda/primitives.h"

namespace tw::tile {

/// Calls f(i) for the i in [0, n) that `matches`, in order. Each warp looks for itself.
template <class P, class M, class F>
__device__ __forceinline__ void for_each_match(P p, int64_t n, M&& matches, F&& f) {
  const int width = p.threads() < 32 ? p.threads() : 32;
  const int lane = p.thread() % width;
  const unsigned mask = p.mask();
  const int first_lane = __ffs(int(mask)) - 1;
  for (int64_t begin = 0; begin < n; begin += width) {
    const int64_t i = begin + lane;
    unsigned found = __ballot_sync(mask, i < n && matches(i)) >> first_lane;
    for (; found != 0; found &= found - 1) f(begin + __ffs(int(found)) - 1);
  }
}

namespace detail {

/// A walk over [0, n) of which each warp has a share, in order.
template <class P, class M>
struct SharedWalk {
  static constexpr int kAtOnce = 8;  // of a lane, which it looks at before it waits for them

  P p;
  const M& matches;
  int width, warps, warp, lane;
  int64_t first, end;  // of the warp's share

  __device__ __forceinline__ SharedWalk(P program, int64_t n, const M& m)
      : p(program), matches(m), width(p.threads() < 32 ? p.threads() : 32) {
    warps = p.threads() / width, warp = p.thread() / width, lane = p.thread() % width;
    const int64_t all = int64_t{step()} * warps, share = (n + all - 1) / all * step();
    first = warp * share;
    end = first + share < n ? first + share : n;
  }
  __device__ __forceinline__ int step() const { return kAtOnce * width; }
  /// Whether begin + j * width + lane matches, in bit j.
  __device__ __forceinline__ unsigned look(int64_t begin) const {
    unsigned hits = 0;
    TW_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t i = begin + j * width + lane;
      hits |= unsigned(i < end && matches(i)) << j;
    }
    return hits;
  }
  /// Of the lane.
  __device__ __forceinline__ int count() const {
    int found = 0;
    for (int64_t begin = first; begin < end; begin += step()) found += __popc(look(begin));
    return found;
  }
  /// Of the warps before this one, and of all; the same in every lane of a warp.
  __device__ __forceinline__ Two<int> count_before() const {
    const int mine = combine_lanes(
        p, count(), [this](int v, int other) { return __shfl_xor_sync(p.mask(), v, other); },
        [](int a, int b) { return a + b; });
    if (warps == 1) return {0, mine};
    int* const counts = reinterpret_cast<int*>(p.shared_);
    if (lane == 0) counts[warp] = mine;
    __syncthreads();
    Two<int> sums{0, 0};
    for (int w = 0; w < warps; ++w) {
      if (w == warp) sums.first = sums.second;
      sums.second += counts[w];
    }
    __syncthreads();  // the next exchange writes the same memory
    return sums;
  }
};

}  // namespace detail

/// How many i in [0, n) match; the same in every thread. The warps share the walk.
template <class P, class M>
__device__ __forceinline__ int count_matches(P p, int64_t n, const M& matches) {
  struct Sum {
    TW_INLINE static int combine(int a, int b) { return a + b; }
  };
  return reduce_threads(p, Sum{}, detail::SharedWalk<P, M>{p, n, matches}.count());
}

/// Calls f(i, rank) for the i in [0, n) that `matches`, in any order; rank: how many there are
/// before it. The warps share the walk. Returns how many there are.
template <class P, class M, class F>
__device__ __forceinline__ int rank_matches(P p, int64_t n, const M& matches, F&& f) {
  using Walk = detail::SharedWalk<P, M>;
  const Walk walk{p, n, matches};
  const unsigned mask = p.mask();
  const int first_lane = __ffs(int(mask)) - 1;
  auto [rank, count] = walk.count_before();
  for (int64_t begin = walk.first; begin < walk.end; begin += walk.step()) {
    const unsigned hits = walk.look(begin);
    if (__ballot_sync(mask, hits != 0) == 0) continue;
    for (int j = 0; j < Walk::kAtOnce; ++j) {
      const bool hit = (hits >> j & 1u) != 0;
      const unsigned found = __ballot_sync(mask, hit) >> first_lane;
      if (hit)
        f(begin + j * walk.width + walk.lane, rank + __popc(found & ((1u << walk.lane) - 1)));
      rank += __popc(found);
    }
  }
  return count;
}

}  // namespace tw::tile
