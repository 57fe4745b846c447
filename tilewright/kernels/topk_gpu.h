// The schedule of topk (topk.h) on a GPU. Of the threads' own largest the k-th is a bound that few
// more than k elements reach: these are listed and sorted. Where k is large, or most elements are
// equal, the digits of the k-th are found one by one until the list has room for what is not below.
#pragma once

#include "tilewright/kernels/select.h"
#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/select.h"
#endif

namespace tw::kernels {

struct TopkOnGpu {
  static constexpr int64_t kShortRow = 1024;    // the list has room for all of it
  static constexpr int64_t kMostThreads = 512;  // of a program

  int64_t cols, k;

  TW_INLINE int64_t most() const { return k < cols ? k : cols; }
  /// Threads beyond those that the columns are worth: twice as many as the bound is of.
  TW_INLINE int64_t columns() const {
    const int64_t threads = 2 * most();
    if (threads > kMostThreads) return cols;
    const int64_t worth = threads * (threads > 32 ? 32 : 8);  // see threads_for
    return worth < cols ? cols : worth;
  }
  /// Elements that the list has room for, and the threads' own largest.
  TW_INLINE int64_t room() const {
    if (cols > kShortRow) return most() * 3 / 2 < kShortRow ? kShortRow : most() * 3 / 2;
    const int64_t threads = most() < kMostThreads / 4 ? 4 * most() : kMostThreads;
    const int64_t least = threads < 32 ? 32 : threads;
    return cols < least ? least : cols;
  }
  TW_INLINE tile::Plan plan(int64_t rows) const {
    const int64_t count = sizeof(uint64_t);  // of the list
    return tile::plan_of(k > 0 ? rows : 0, room() * int64_t{sizeof(uint64_t)} + count)
        .over(columns());
  }

#if defined(__CUDACC__)
  /// Keys of a row from `begin` on. NaN is larger than anything, -0 is 0.
  template <class T, bool kIsAdjacent>
  struct Window {
    View<const T, 1> row;
    int64_t begin;

    __device__ __forceinline__ uint32_t operator()(uint32_t i) const {
      const int64_t stride = kIsAdjacent ? 1 : row.stride(0);
      const float v = float((row.data + begin * stride)[i * stride]) + 0.0f;
      return v == v ? RankSelect::ordered_bits(v) : 0xffffffffu;
    }
  };

  /// Leaves the largest elements of [begin, end) of a row in the program's scratch, in order, and
  /// gives how many there are: k at most.
  template <class P, class T>
  __device__ __forceinline__ int64_t select(P p, const View<const T, 1>& row, int64_t begin,
                                            int64_t end) const {
    const int64_t n = end > begin ? end - begin : 0, found = n < k ? n : k;
    if (found > 0 && row.stride(0) == 1)
      select(p, Window<T, true>{row, begin}, n, found);
    else if (found > 0)
      select(p, Window<T, false>{row, begin}, n, found);
    return found;
  }

 private:
  template <class P, class W>
  __device__ __forceinline__ void select(P p, const W& window, int64_t n, int64_t found) const {
    uint64_t* const list = p.template scratch<uint64_t>();
    uint32_t* const count = reinterpret_cast<uint32_t*>(list + room());
    int64_t listed = 0;
    bool has_bound = n > 2 * p.threads() && 2 * found <= p.threads();
    do {
      uint64_t least = 0;
      if (has_bound)
        least = uint64_t{tile::bound_of_largest(p, n, found, list, window)} << 32;
      else if (n > room())
        least = least_of(p, window, list, n, found);
      has_bound = false;  // where most are equal, too many reach it
      listed = tile::list_from(p, n, window.begin, least, list, room(), count, window);
    } while (listed > room());
    tile::sort_largest_first(p, list, listed);
  }

  /// A number that at least `found` elements reach, and no more than the list has room for.
  template <class P, class W>
  __device__ __forceinline__ uint64_t least_of(P p, const W& window, uint64_t* list, int64_t n,
                                               int64_t found) const {
    using Digits = tile::Digits<uint32_t>;
    static_assert(Digits::kBins * sizeof(uint32_t) <= kShortRow * sizeof(uint64_t));
    const auto element = [&](uint32_t i, uint32_t key) {
      return tile::element_of(key, window.begin + i);
    };
    const uint32_t limit = uint32_t(found - 1);
    Digits digits{64, limit};
    uint32_t* const bins = reinterpret_cast<uint32_t*>(list);
    int64_t reached;
    do {
      digits.weigh(p, bins, n, window, element, [](uint32_t) { return 1u; });
      const uint32_t its = digits.take(p, bins);
      reached = int64_t{limit - digits.limit} + its;
    } while (reached > room() && digits.below > 0);
    return digits.least();
  }
#endif
};

}  // namespace tw::kernels
