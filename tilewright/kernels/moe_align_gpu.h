// The schedule of moe_align.h on a GPU for many entries, which are cut into chunks:
//
//   phase 0  a program counts a chunk's entries of each expert
//   phase 1  a program has an expert: how many of its entries are before those of each chunk
//   phase 2  a program places a chunk's entries, whose warps have shares of it, in order
#pragma once

#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/key_counts.h"
#endif

namespace tw::kernels {

template <class Align>
struct MoeAlignInChunks {
  static constexpr int kThreads = 512, kWarps = kThreads / 32;
  static constexpr int kEach = 8;  // entries of a thread
  static constexpr int64_t kChunk = int64_t{kEach} * kThreads;
  static constexpr int64_t kColumns = 16384;  // of a plan: so many threads
  static constexpr int64_t kMany = 65536, kMostExperts = 1024;

  const Align& of;

  TW_INLINE bool takes() const {
    return of.ids.rows > kMany && of.experts > 0 && of.experts <= kMostExperts;
  }
  TW_INLINE int64_t chunks() const { return (of.ids.rows + kChunk - 1) / kChunk; }

  TW_INLINE tile::Plan plan() const {
    constexpr int64_t kBytes = sizeof(int32_t);
    tile::Plan plan = tile::plan_of(chunks(), (kWarps + 1) * of.experts * kBytes).over(kColumns);
    plan.phases = 3;
    plan.grid[1] = of.experts;
    plan.grid[2] = chunks();
    plan.workspace_bytes = of.experts * chunks() * kBytes;
    return plan;
  }

#if defined(__CUDACC__)
  /// id(i) of entry i; put_position(i, at).
  template <class P, class Id, class Put>
  __device__ __forceinline__ void run(P p, const Id& id, const Put& put_position) const {
    if (p.phase() == 0)
      count(p, id);
    else if (p.phase() == 1)
      add_up(p);
    else
      place(p, id, put_position);
  }

 private:
  /// Of an expert, for each chunk: its entries there, then those before.
  template <class P>
  __device__ __forceinline__ int32_t* of_chunks(P p, int64_t expert) const {
    return p.template workspace<int32_t>() + expert * chunks();
  }
  /// The expert of entry i; -1 if none is here.
  template <class Id>
  __device__ __forceinline__ int key(const Id& id, int64_t i) const {
    const int32_t its = i < of.ids.rows ? id(i) : -1;
    return of.is_here(its) ? its : -1;
  }

  template <class P, class Id>
  __device__ __forceinline__ void count(P p, const Id& id) const {
    int* const counters = p.template scratch<int>();
    for (int e = p.thread(); e < of.experts; e += kThreads) counters[e] = 0;
    int keys[kEach];
    TW_UNROLL
    for (int j = 0; j < kEach; ++j)
      keys[j] = key(id, p.index() * kChunk + j * kThreads + p.thread());
    p.sync();
    TW_UNROLL
    for (int j = 0; j < kEach; ++j)
      if (keys[j] >= 0) tile::count_key(counters, keys[j]);
    p.sync();
    for (int e = p.thread(); e < of.experts; e += kThreads)
      of_chunks(p, e)[p.index()] = counters[e];
  }

  /// put(i, value of i, sum of those before) of the i in [0, n); the sum of all.
  template <class P, class Value, class PutSum>
  __device__ __forceinline__ static int add_before(P p, int64_t n, Value&& value, PutSum&& put) {
    int sum = 0;
    for (int64_t first = 0, turn = 0; first < n; first += kThreads, ++turn) {
      const int64_t i = first + p.thread();
      const int its = i < n ? value(i) : 0;
      const tile::Combined<int> others = tile::combine_before<tile::Sum>(p, its, int(turn));
      if (i < n) put(i, its, sum + others.before);
      sum += others.all;
    }
    return sum;
  }
  template <class P>
  __device__ __forceinline__ void add_up(P p) const {
    int32_t* const its = of_chunks(p, p.index());
    const int all = add_before(
        p, chunks(), [&](int64_t c) { return its[c]; },
        [&](int64_t c, int, int before) { its[c] = before; });
    if (p.thread() == 0) of.counts(p.index()) = all;
  }

  template <class P, class Id, class Put>
  __device__ __forceinline__ void place(P p, const Id& id, const Put& put_position) const {
    const int warp = p.thread() / 32, experts = int(of.experts);
    int* const begins = p.template scratch<int>();
    int* const counters = begins + experts;
    const int64_t first = p.index() * kChunk + warp * (32 * kEach) + p.thread() % 32;
    int keys[kEach];
    TW_UNROLL
    for (int j = 0; j < kEach; ++j) keys[j] = key(id, first + 32 * j);
    for (int k = p.thread(); k < kWarps * experts; k += kThreads) counters[k] = 0;
    const int end = add_before(
        p, experts, [&](int64_t e) { return int(of.padded(of.counts(e))); },
        [&](int64_t e, int its, int before) {
          begins[e] = before;
          if (p.index() == 0) of.offsets(e) = before + its;
        });
    p.sync();
    int* const its = counters + warp * experts;
    TW_UNROLL
    for (int j = 0; j < kEach; ++j)
      if (keys[j] >= 0) tile::count_key(its, keys[j]);
    p.sync();
    for (int e = p.thread(); e < experts; e += kThreads) {
      int at = begins[e] + of_chunks(p, e)[p.index()];
      for (int w = 0; w < kWarps; ++w) {
        int& counter = counters[w * experts + e];
        const int count = counter;
        counter = at;
        at += count;
      }
    }
    p.sync();
    TW_UNROLL
    for (int j = 0; j < kEach; ++j) {
      const int at = tile::place_key(its, keys[j]);
      const int64_t i = first + 32 * j;
      if (at >= 0) of.order(at) = of.told(i);
      if (i < of.ids.rows) put_position(i, at);
    }
    fill(p, begins, end);
  }
  /// What no entry has, of some experts' parts and behind all of them.
  template <class P>
  __device__ __forceinline__ void fill(P p, const int* begins, int64_t end) const {
    for (int64_t e = p.index(); e < of.experts; e += chunks()) {
      const int64_t count = of.counts(e), stop = begins[e] + of.padded(int32_t(count));
      for (int64_t s = begins[e] + count + p.thread(); s < stop; s += kThreads)
        of.order(s) = of.nothing();
    }
    const int64_t step = chunks() * kThreads;
    for (int64_t s = end + p.index() * kThreads + p.thread(); s < of.order.size(0); s += step)
      of.order(s) = of.nothing();
  }
#endif
};

}  // namespace tw::kernels
