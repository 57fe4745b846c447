// The elements that match, on CUDA: who looks for them, and how many are before each. The names and
// meanings are those of tile/cpu/matches.h. Freestanding.
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

/// How many of a walk's keys are less than one, are that one, and are sorted at all.
struct KeyCounts {
  int before = 0, its = 0, all = 0;

  __device__ __forceinline__ KeyCounts operator+(const KeyCounts& b) const {
    return {before + b.before, its + b.its, all + b.all};
  }
};

/// A walk over [0, n) of which each warp has a share, in order, and each lane of it every width-th.
template <class P, class K>
struct SharedWalk {
  static constexpr int kAtOnce = 16;  // of a lane, which it asks for before it waits for them

  P p;
  const K& key;
  int width, warps, warp, lane;
  int64_t first, end;  // of the warp's share

  __device__ __forceinline__ SharedWalk(P program, int64_t n, const K& k)
      : p(program), key(k), width(p.threads() < 32 ? p.threads() : 32) {
    warps = p.threads() / width, warp = p.thread() / width, lane = p.thread() % width;
    const int64_t all = int64_t{step()} * warps, share = (n + all - 1) / all * step();
    first = warp * share;
    end = first + share < n ? first + share : n;
  }
  __device__ __forceinline__ int step() const { return kAtOnce * width; }
  /// Of begin + j * width + lane; -1 past the end.
  __device__ __forceinline__ void load(int64_t begin, int (&keys)[kAtOnce]) const {
    TW_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t i = begin + j * width + lane;
      keys[j] = i < end ? key(i) : -1;
    }
  }
  /// Of the warp's share, in every lane.
  __device__ __forceinline__ KeyCounts count(int its, int limit) const {
    KeyCounts counts;
    for (int64_t begin = first; begin < end; begin += step()) {
      int keys[kAtOnce];
      load(begin, keys);
      unsigned packed = 0;  // ten bits each
      TW_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const unsigned k = unsigned(keys[j]);
        packed += unsigned(k < unsigned(its)) | unsigned(k == unsigned(its)) << 10 |
                  unsigned(k < unsigned(limit)) << 20;
      }
      counts = counts + KeyCounts{int(packed & 1023), int(packed >> 10 & 1023), int(packed >> 20)};
    }
    const auto exchange = [this](const KeyCounts& v, int other) {
      const auto of = [&](int x) { return __shfl_xor_sync(p.mask(), x, other); };
      return KeyCounts{of(v.before), of(v.its), of(v.all)};
    };
    return combine_lanes(p, counts, exchange,
                         [](const KeyCounts& a, const KeyCounts& b) { return a + b; });
  }
};

}  // namespace detail

/// Where a stable sort by key(i) of the i in [0, n), without those whose key is none of
/// [0, limit), puts the part of one key, how long that is, and how many it sorts.
struct SortedPart {
  int begin, count, all;
  int before;  // of the part, in the shares of earlier warps
};
template <class P, class K>
__device__ __forceinline__ SortedPart find_part(P p, int64_t n, const K& key, int its, int limit) {
  const detail::SharedWalk<P, K> walk{p, n, key};
  detail::KeyCounts counts = walk.count(its, limit), before;
  if (walk.warps > 1) {
    auto* const shared = reinterpret_cast<detail::KeyCounts*>(p.shared_);
    static_assert(cuda::kMaxThreads / 32 * sizeof(detail::KeyCounts) <= 32 * sizeof(double));
    if (walk.lane == 0) shared[walk.warp] = counts;
    __syncthreads();
    counts = {};
    for (int w = 0; w < walk.warps; ++w) {
      if (w == walk.warp) before = counts;
      counts = counts + shared[w];
    }
    __syncthreads();  // the next exchange writes the same memory
  }
  return {counts.before, counts.its, counts.all, before.its};
}
/// f(i, rank) for each i of the part that find_part has found, in any order; the threads share the
/// work.
template <class P, class K, class F>
__device__ __forceinline__ void for_each_of_part(P p, int64_t n, const K& key, int its,
                                                 const SortedPart& part, F&& f) {
  using Walk = detail::SharedWalk<P, K>;
  const Walk walk{p, n, key};
  const unsigned mask = p.mask();
  const int first_lane = __ffs(int(mask)) - 1;
  int rank = part.before;
  for (int64_t begin = walk.first; begin < walk.end; begin += walk.step()) {
    int keys[Walk::kAtOnce];
    walk.load(begin, keys);
    TW_UNROLL
    for (int j = 0; j < Walk::kAtOnce; ++j) {
      const unsigned found = __ballot_sync(mask, keys[j] == its) >> first_lane;
      if (found == 0) continue;
      if (keys[j] == its)
        f(begin + j * walk.width + walk.lane, rank + __popc(found & ((1u << walk.lane) - 1)));
      rank += __popc(found);
    }
  }
}

}  // namespace tw::tile
