// The largest of many on CUDA: their histograms, lists and running sums, which the threads of an
// instance make together in its scratch. All is in whole numbers, so that the order in which the
// threads come changes nothing. Freestanding.
//
// A key is a number of 32 bits, not 0; an element is a key and, below it, the complement of its
// place, so that no two are equal, and of equal keys the first is the largest.
#pragma once

#include "tilewright/tile/cuda/atomics.h"
#include "tilewright/tile/cuda/primitives.h"

namespace tw::tile {

TW_INLINE uint64_t element_of(uint32_t key, int64_t place) {
  return uint64_t{key} << 32 | uint32_t(~uint32_t(place));
}
TW_INLINE uint32_t key_of(uint64_t element) {
  return uint32_t(element >> 32);
}
TW_INLINE int64_t place_of(uint64_t element) {
  return int64_t{~uint32_t(element)};
}

/// use(i, load(i)) for i = first, first + step ... below n. Several loads are on their way before
/// the first is used: kMany, and of the last ones eight, as short rows have no others. n < 2^31.
template <uint32_t kMany = 16, class L, class F>
__device__ __forceinline__ void for_loaded(uint32_t first, uint32_t step, uint32_t n, L&& load,
                                           F&& use) {
  constexpr uint32_t kFew = 8;
  uint32_t i = first;
  if constexpr (kMany > kFew) {
    TW_ROLLED
    for (; i + (kMany - 1) * step < n; i += kMany * step) {
      decltype(load(i)) values[kMany];
      TW_UNROLL
      for (uint32_t j = 0; j < kMany; ++j) values[j] = load(i + j * step);
      TW_UNROLL
      for (uint32_t j = 0; j < kMany; ++j) use(i + j * step, values[j]);
    }
  }
  TW_ROLLED
  for (; i < n; i += kFew * step) {
    decltype(load(i)) values[kFew] = {};
    TW_UNROLL
    for (uint32_t j = 0; j < kFew; ++j)
      if (i + j * step < n) values[j] = load(i + j * step);
    TW_UNROLL
    for (uint32_t j = 0; j < kFew; ++j)
      if (i + j * step < n) use(i + j * step, values[j]);
  }
}
/// The same for the thread's share of [0, n): threads side by side have what lies side by side.
template <uint32_t kMany = 16, class P, class L, class F>
__device__ __forceinline__ void for_loaded(P p, int64_t n, L&& load, F&& use) {
  for_loaded<kMany>(uint32_t(p.thread()), uint32_t(p.threads()), uint32_t(n), load, use);
}

/// The largest of whole numbers.
struct LargestOf {
  template <class I>
  TW_INLINE static I combine(I a, I b) {
    return a < b ? b : a;
  }
};

/// The sum of `mine` over the threads before this one.
template <class P, class W>
__device__ __forceinline__ W sum_before(P p, W mine) {
  const int width = p.threads() < 32 ? p.threads() : 32;
  const int lane = p.thread() % width, warp = p.thread() / width;
  W sum = mine;
  TW_ROLLED
  for (int by = 1; by < width; by *= 2) {
    const W other = __shfl_up_sync(p.mask(), sum, unsigned(by), width);
    if (lane >= by) sum += other;
  }
  W before = sum - mine;
  if (p.threads() <= 32) return before;
  W* const shared = reinterpret_cast<W*>(p.shared_);
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) before += shared[w];
  __syncthreads();  // the next exchange writes the same memory
  return before;
}

/// Where a running sum exceeds a limit, and what it is before; n and 0 where it never does.
template <class W>
struct Running {
  int64_t index;
  W before;
};
/// The first i of [0, n) at which the sum of of(0) .. of(i) exceeds `limit`, in every thread.
template <class W, class P, class F>
__device__ __forceinline__ Running<W> find_running(P p, int64_t n, W limit, F&& of) {
  const int64_t stretch = index_quotient(n + p.threads() - 1, p.threads());
  const int64_t begin = p.thread() * stretch;
  const int64_t end = begin + stretch < n ? begin + stretch : n;
  W mine = 0;
  for (int64_t i = begin; i < end; ++i) mine += W(of(i));
  W sum = sum_before(p, mine);
  int64_t at = n;
  if (sum <= limit && limit - sum < mine) {
    for (at = begin; at < end - 1; ++at) {
      const W next = sum + W(of(at));
      if (next > limit) break;
      sum = next;
    }
  }
  const int64_t index = reduce_threads(p, detail::Least{}, at);
  return {index, reduce_threads(p, Sum{}, index == at && at < n ? sum : W(0))};
}
/// The first i of [0, n) with is(i), or n.
template <class P, class F>
__device__ __forceinline__ int64_t find_where(P p, int64_t n, F&& is) {
  int64_t at = n;
  for (int64_t i = p.thread(); i < n && at == n; i += p.threads())
    if (is(i)) at = i;
  return reduce_threads(p, detail::Least{}, at);
}
/// The sum of of(i) over [0, n), in every thread.
template <class W, class P, class F>
__device__ __forceinline__ W sum_all(P p, int64_t n, F&& of) {
  W mine = 0;
  for (int64_t i = p.thread(); i < n; i += p.threads()) mine += W(of(i));
  return reduce_threads(p, Sum{}, mine);
}

/// sums[b] = the sum of of(i) over block b, of `size` numbers, of [0, n): each warp sums blocks.
template <class W, class P, class F>
__device__ __forceinline__ void sum_blocks(P p, int64_t n, int64_t size, W* sums, F&& of) {
  const int width = p.threads() < 32 ? p.threads() : 32;
  const int lane = p.thread() % width, warp = p.thread() / width, warps = p.threads() / width;
  const auto exchange = [p](W v, int other) { return __shfl_xor_sync(p.mask(), v, other); };
  TW_ROLLED
  for (int64_t b = warp; b * size < n; b += warps) {
    const int64_t end = (b + 1) * size < n ? (b + 1) * size : n;
    W sum = 0;
    for_loaded(uint32_t(b * size + lane), uint32_t(width), uint32_t(end), of,
               [&](uint32_t, W v) { sum += v; });
    sum = detail::combine_lanes(p, sum, exchange, [](W x, W y) { return x + y; });
    if (lane == 0) sums[b] = sum;
  }
  p.sync();
}

/// Sorts n numbers that the threads have written and synchronized, the largest first: exchanges in
/// a bitonic network whose missing elements are the smallest. The first exchange of a block is with
/// the mirrored place, so that all run the same way.
template <class P>
__device__ __forceinline__ void sort_largest_first(P p, uint64_t* list, int64_t n) {
  constexpr int64_t kOfWarp = 32;  // up to this distance a warp's pairs are of its own numbers
  TW_ROLLED
  for (int64_t block = 2; block < 2 * n; block *= 2) {
    TW_ROLLED
    for (int64_t step = block / 2; step > 0; step /= 2) {
      TW_ROLLED
      for (int64_t pair = p.thread(); 2 * pair < n + step; pair += p.threads()) {
        const int64_t i = (pair & ~(step - 1)) * 2 | (pair & (step - 1));
        const int64_t other = step == block / 2 ? i ^ (block - 1) : i + step;
        if (other >= n) continue;
        const uint64_t left = list[i], right = list[other];
        if (left >= right) continue;
        list[i] = right;
        list[other] = left;
      }
      if (step > kOfWarp || (step == 1 && block > kOfWarp))
        p.sync();
      else
        __syncwarp(p.mask());
    }
  }
  p.sync();
}

/// A number that at least `count` keys reach, and few more if they lie in no order: the count-th
/// largest of the threads' own largest, of at least as many threads. `list` has a place for each.
template <class P, class K>
__device__ __forceinline__ uint32_t bound_of_largest(P p, int64_t n, int64_t count, uint64_t* list,
                                                     K&& key) {
  uint32_t mine = 0;
  for_loaded(p, n, key, [&](uint32_t, uint32_t k) { mine = k > mine ? k : mine; });
  list[p.thread()] = mine;
  p.sync();
  sort_largest_first(p, list, p.threads());
  const uint32_t bound = uint32_t(list[count - 1]);
  p.sync();  // the list may be used again
  return bound;
}

/// Lists the elements that are at least `least`, in any order, of the keys of [0, n), whose places
/// are from `place` on. How many there are; if more than `room`, not all are listed.
template <class P, class K>
__device__ __forceinline__ int64_t list_from(P p, int64_t n, int64_t place, uint64_t least,
                                             uint64_t* list, int64_t room, uint32_t* count,
                                             K&& key) {
  if (p.thread() == 0) *count = 0;
  p.sync();
  bool is_full = false;  // who knows it counts no more: threads would wait for each other
  for_loaded(p, n, key, [&](uint32_t i, uint32_t k) {
    const uint64_t element = element_of(k, place + i);
    if (element < least || is_full) return;
    const int64_t to = int64_t{fetch_add(p, count, 1)};
    is_full = to >= room;
    if (!is_full) list[to] = element;
  });
  p.sync();
  const int64_t found = *count;
  p.sync();
  return found;
}

/// Of numbers of `below` bits at first, the leading digits of the one at which the sum of the
/// weights, from the largest number down, exceeds `limit`: a digit of 11 or 10 bits at a time.
template <class W>
struct Digits {
  static constexpr int kBins = 2048;

  int below;           // bits that are not known yet
  W limit;             // less what weighs the numbers above the digits known
  uint64_t known = 0;  // digits

  __device__ __forceinline__ int bits() const { return below % 32 == 10 ? 10 : 11; }
  __device__ __forceinline__ uint64_t least() const { return below < 64 ? known << below : 0; }

  /// What the numbers number(i, load(i)) with the digits known weigh, weight(load(i)) each, by
  /// their next digit. A thread adds up equal digits itself: where most are equal, threads would
  /// wait.
  template <class P, class L, class N, class F>
  __device__ __forceinline__ void weigh(P p, W* bins, int64_t n, L&& load, N&& number,
                                        F&& weight) const {
    const int shift = below - bits(), count = 1 << bits();
    for (int b = p.thread(); b < count; b += p.threads()) bins[b] = 0;
    p.sync();
    int last = 0;
    W pending = 0;
    for_loaded<8>(p, n, load, [&](uint32_t i, auto loaded) {
      const uint64_t x = number(i, loaded);
      if (below < 64 && x >> below != known) return;
      const int digit = int(x >> shift) & (count - 1);
      if (digit != last) {
        if (pending != 0) add_to(p, bins + last, pending);
        last = digit;
        pending = 0;
      }
      pending += weight(loaded);
    });
    if (pending != 0) add_to(p, bins + last, pending);
    p.sync();
  }
  /// The next digit, and what weigh those that have it; 0 where all do not exceed the limit.
  template <class P>
  __device__ __forceinline__ W take(P p, const W* bins) {
    const int count = 1 << bits();
    const auto from_top = [&](int64_t i) { return bins[count - 1 - i]; };
    const Running<W> found = find_running<W>(p, count, limit, from_top);
    const W its = found.index < count ? from_top(found.index) : 0;
    p.sync();  // the bins are used again
    if (its == 0) return 0;
    known = known << bits() | uint64_t(count - 1 - found.index);
    below -= bits();
    limit -= found.before;
    return its;
  }
};

}  // namespace tw::tile
