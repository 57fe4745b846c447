// Rows of a table by index: out[i] = weight[indices[i]], T the bits of an element (relayout.h). One
// program per index, or on a CPU for some.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class I>
struct Embedding {
  View<const T, 2> weight;  // [vocabulary, cols]
  Rows<const I> indices;    // [*], each in 0 .. vocabulary
  Rows<T> out;              // [*, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    const int64_t groups = tile::row_groups<P>(out.rows, out.cols, machine);
    return tile::plan_of(out.cols > 0 ? groups : 0).over(out.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const tile::RowGroup group = tile::row_group(p, out.rows, out.cols);
    if constexpr (!P::kOnGpu) return copy_rows(p, group);
    TW_ROLLED
    for (int64_t i = group.first; i < group.last; ++i) {
      const int64_t index = int64_t(indices(i, 0));
      tile::require_index(p, index, weight.size(0));
      tile::map_row<T>(p, out.row(i), [](auto v) { return v; }, weight[index]);
    }
  }

 private:
  /// On a CPU: what a row lies like is asked once, and rows further on are on their way meanwhile,
  /// which no hardware can guess; of long ones, their beginnings.
  template <class P>
  TW_INLINE void copy_rows(P p, const tile::RowGroup& group) const {
    constexpr int64_t kAhead = 8, kMost = 512 / int64_t{sizeof(T)};
    const Rows<const T> table = rows(weight);
    const int64_t fetched = out.cols < kMost ? out.cols : kMost;
    const auto run = [&](const auto& read, const auto& written) TW_INLINED {
      for (int64_t i = group.first; i < group.last; ++i) {
        const int64_t index = int64_t(indices(i, 0));
        tile::require_index(p, index, weight.size(0));
        const int64_t later = i + kAhead < group.last ? int64_t(indices(i + kAhead, 0)) : -1;
        if (later >= 0 && later < weight.size(0))
          tile::prefetch_random(p,
                                View<const T, 1>{&table(later, 0), {fetched}, {weight.stride(1)}});
        const auto from = read.row(index);
        const auto to = written.row(i);
        tile::for_row<T>(p, out.cols,
                         [&](auto at) TW_INLINED { tile::store(p, to, at, tile::load(from, at)); });
      }
    };
    tile::with_rows(p, run, table, out);
  }
};

}  // namespace tw::kernels
