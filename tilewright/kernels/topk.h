// The k largest of a window of each row, in order, and where they are: of equals the first. NaN is
// larger than anything.
//
// An element is a whole number that orders as it does, and after it its place: no two are equal.
// One program per row: on a CPU a heap of the best so far; on a GPU the smallest of the k is found
// bit by bit, and what is not below it sorted.
#pragma once

#include "tilewright/kernels/select.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Topk {
  using C = tile::compute_t<T>;
  static constexpr int kMostThreads = 512;

  Rows<const T> x;             // [*, cols]
  int64_t k;                   // how many
  Rows<const int32_t> starts;  // [*], first of the window; or no data: 0
  Rows<const int32_t> ends;    // [*], one past its last; or no data: cols
  Rows<T> values;              // [*, k]; -inf where the window has no more
  Rows<int32_t> indices;       // [*, k]; -1 there

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t counts = P::kOnGpu ? kMostThreads * int64_t{sizeof(int32_t)} : 0;
    return tile::plan_of(k > 0 ? x.rows : 0, k * int64_t{sizeof(uint64_t)} + counts).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const Window window{x.row(p.index()), bound(starts, p.index(), 0),
                        bound(ends, p.index(), x.cols)};
    const int64_t size = window.end > window.begin ? window.end - window.begin : 0;
    const int64_t found = size < k ? size : k;
    uint64_t* const best = p.template scratch<uint64_t>();
    if constexpr (P::kOnGpu)
      select(p, window, best, found);
    else
      keep_in_heap(window, best, found);
    const auto value = values.row(p.index());
    const auto index = indices.row(p.index());
    tile::for_row(p, k, [&](auto at) {
      for (int64_t i = at.offset; i < at.offset + at.count; ++i) {
        const int64_t from = i < found ? place_of(best[i]) : -1;
        index(i) = int32_t(from);
        value(i) = from < 0 ? T(-__builtin_inff()) : x(p.index(), from);
      }
    });
    tile::sync(p);  // another row of this instance writes the same memory
  }

 private:
  struct Window {
    View<const T, 1> row;
    int64_t begin, end;

    TW_INLINE uint64_t operator()(int64_t i) const {
      const float v = float(row(i)) + 0.0f;  // -0 is 0
      const uint32_t key = v == v ? RankSelect::ordered_bits(v) : 0xffffffffu;
      return uint64_t(key) << 32 | (0xffffffffu - uint32_t(i));
    }
  };
  TW_INLINE static int64_t place_of(uint64_t element) {
    return int64_t(0xffffffffu - uint32_t(element));
  }
  TW_INLINE int64_t bound(const Rows<const int32_t>& given, int64_t row, int64_t otherwise) const {
    if (!given) return otherwise;
    const int64_t at = given(row, 0);
    return at < 0 ? 0 : at < x.cols ? at : x.cols;
  }

  /// Puts `element` where the heap of n, the smallest of which comes first, had its first.
  TW_INLINE static void replace_first(uint64_t* heap, int64_t n, uint64_t element) {
    int64_t at = 0;
    for (int64_t child = 1; child < n; child = 2 * at + 1) {
      if (child + 1 < n && heap[child + 1] < heap[child]) ++child;
      if (heap[child] >= element) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = element;
  }

  TW_INLINE static void keep_in_heap(const Window& window, uint64_t* heap, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = i;
      const uint64_t element = window(window.begin + i);
      for (; at > 0 && heap[(at - 1) / 2] > element; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
      heap[at] = element;
    }
    for (int64_t i = window.begin + n; n > 0 && i < window.end; ++i)
      if (const uint64_t element = window(i); element > heap[0]) replace_first(heap, n, element);
    for (int64_t last = n - 1; last > 0; --last) {
      const uint64_t least = heap[0];
      replace_first(heap, last, heap[last]);
      heap[last] = least;
    }
  }

  template <class P>
  TW_INLINE void select(P p, const Window& window, uint64_t* best, int64_t n) const {
    int32_t* const counts = reinterpret_cast<int32_t*>(best + k);
    uint64_t least = 0;  // the largest number that n elements are not below
    for (int bit = 63; n > 0 && bit >= 0; --bit) {
      const uint64_t higher = least | uint64_t{1} << bit;
      if (count_from(p, window, higher, counts) >= n) least = higher;
    }
    const int64_t stretch = (window.end - window.begin + p.threads() - 1) / p.threads();
    const int64_t begin = window.begin + p.thread() * stretch;
    const int64_t end = begin + stretch < window.end ? begin + stretch : window.end;
    int32_t mine = 0;
    for (int64_t i = begin; n > 0 && i < end; ++i) mine += window(i) >= least;
    counts[p.thread()] = mine;
    p.sync();
    int64_t to = 0;
    for (int t = 0; t < p.thread(); ++t) to += counts[t];
    for (int64_t i = begin; n > 0 && i < end; ++i)
      if (window(i) >= least) best[to++] = window(i);
    p.sync();
    sort(p, best, n);
  }

  template <class P>
  TW_INLINE static int64_t count_from(P p, const Window& window, uint64_t least, int32_t* counts) {
    int32_t mine = 0;
    for (int64_t i = window.begin + p.thread(); i < window.end; i += p.threads())
      mine += window(i) >= least;
    counts[p.thread()] = mine;
    p.sync();
    int64_t all = 0;
    for (int t = 0; t < p.threads(); ++t) all += counts[t];
    p.sync();
    return all;
  }

  /// Largest first: exchanges in a bitonic network whose missing elements are the smallest.
  template <class P>
  TW_INLINE static void sort(P p, uint64_t* best, int64_t n) {
    for (int64_t block = 2; block < 2 * n; block *= 2)
      for (int64_t step = block / 2; step > 0; step /= 2) {
        for (int64_t i = p.thread(); i < n; i += p.threads()) {
          // The first round of a block compares mirrored places, so that all run the same way.
          const int64_t other =
              step == block / 2 ? (i / block * block) + block - 1 - i % block : i + step;
          const bool is_lower = step == block / 2 ? other > i : i / step % 2 == 0;
          if (!is_lower || other >= n || best[i] >= best[other]) continue;
          const uint64_t larger = best[other];
          best[other] = best[i];
          best[i] = larger;
        }
        p.sync();
      }
  }
};

}  // namespace tw::kernels
