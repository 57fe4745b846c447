// Means of stretches of a dimension: out[b, n] = mean of x[b, starts[n] .. ends[n]), 0 of none. One
// program per stretch and block of columns, whose threads share the rows on a GPU; sums are
// float32.
#pragma once

#include "tilewright/kernels/column_folds.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class I>
struct SegmentMean {
  View<const T, 3> x;       // [B, L, C]
  View<const I, 1> starts;  // [N], 0 <= starts[n] <= ends[n] <= L
  View<const I, 1> ends;    // [N]
  View<T, 3> out;           // [B, N, C]

  /// Columns of a program: few where there are few stretches.
  template <class P>
  TW_INLINE int64_t width() const {
    if constexpr (!P::kOnGpu) return 2048;
    constexpr int64_t kWide = 256, kNarrow = 32, kPrograms = 1024;
    const bool many = x.size(0) * starts.size(0) * x.size(2) >= kPrograms * kWide;
    return many ? kWide : kNarrow;
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t blocks = (x.size(2) + width<P>() - 1) / width<P>();
    tile::Plan plan = tile::plan_of(x.size(0) * starts.size(0) * blocks);
    if constexpr (P::kOnGpu) {
      plan = plan.over(P::kSumColumns);
      plan.scratch_bytes = tile::fold_scratch<P, float>(P::kSumThreads) * int64_t{sizeof(float)};
    }
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const int64_t most = width<P>(), blocks = index_quotient(x.size(2) + most - 1, most);
    const int64_t row = index_quotient(p.index(), blocks);
    const int64_t b = index_quotient(row, starts.size(0)), n = row - b * starts.size(0);
    const int64_t column = (p.index() - row * blocks) * most, rest = x.size(2) - column;
    const int64_t columns = rest < most ? rest : most;
    const int64_t first = int64_t(starts(n)), count = int64_t(ends(n)) - first;
    tile::require_index(p, first, x.size(1) + 1);
    tile::require_index(p, count, x.size(1) + 1 - first);
    const float share = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
    const auto to = out[b][n].part(column, columns);
    if constexpr (P::kOnGpu) {
      View<const T, 1> from = x[b][0].part(column, columns);
      from.data += first * x.stride(1);
      tile::fold_rows<float>(
          p, FoldBy<float, tile::Sum>{}, 0, count,
          [&](int c, float sum) { to(c) = T(sum * share); }, AsTheyAre{},
          tile::RowsApart<const T>{from, x.stride(1)});
    } else {
      tile::for_row<float, 4>(p, columns, [&](auto at) {
        typename decltype(at)::Vec sum{};
        for (int64_t i = first; i < first + count; ++i)
          sum = sum + tile::load(x[b][i].part(column, columns), at);
        tile::store(p, to, at, sum * share);
      });
    }
  }
};

}  // namespace tw::kernels
