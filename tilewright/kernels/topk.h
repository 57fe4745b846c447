// The k largest of a window of each row, in order, and where they are: of equals the first. NaN is
// larger than anything.
//
// An element is a whole number that orders as it does, and after it its place: no two are equal.
// One program per row: on a CPU a heap of the best so far; of a GPU see topk_gpu.h.
#pragma once

#include "tilewright/kernels/select.h"
#include "tilewright/kernels/topk_gpu.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Topk {
  using C = tile::compute_t<T>;

  Rows<const T> x;             // [*, cols]
  int64_t k;                   // how many
  Rows<const int32_t> starts;  // [*], first of the window; or no data: 0
  Rows<const int32_t> ends;    // [*], one past its last; or no data: cols
  Rows<T> values;              // [*, k]; -inf where the window has no more
  Rows<int32_t> indices;       // [*, k]; -1 there

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if (P::kOnGpu) return TopkOnGpu{x.cols, k}.plan(x.rows);
    return tile::plan_of(k > 0 ? x.rows : 0, k * int64_t{sizeof(uint64_t)}).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const int64_t begin = bound(starts, p.index(), 0), end = bound(ends, p.index(), x.cols);
#if defined(__CUDACC__)
    if constexpr (P::kOnGpu) {
      const View<const T, 1> row = x.row(p.index());
      const int64_t found = TopkOnGpu{x.cols, k}.select(p, row, begin, end);
      const uint64_t* const best = p.template scratch<uint64_t>();
      const View<T, 1> value = values.row(p.index());
      const View<int32_t, 1> index = indices.row(p.index());
      for (int64_t i = p.thread(); i < k; i += p.threads()) {
        const int64_t from = i < found ? place_of(best[i]) : -1;
        index(i) = int32_t(from);
        value(i) = from < 0 ? T(-__builtin_inff()) : row(from);
      }
    }
#else
    const Window window{x.row(p.index()), begin, end};
    const int64_t size = window.end > window.begin ? window.end - window.begin : 0;
    const int64_t found = size < k ? size : k;
    uint64_t* const best = p.template scratch<uint64_t>();
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
#endif
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
};

}  // namespace tw::kernels
