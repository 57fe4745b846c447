// Means of stretches of a dimension: out[b, n] = mean of x[b, starts[n] .. ends[n]), 0 of none. One
// program per stretch and block of columns; sums are float32.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class I>
struct SegmentMean {
  static constexpr int64_t kColumns = 2048;

  View<const T, 3> x;       // [B, L, C]
  View<const I, 1> starts;  // [N], 0 <= starts[n] <= ends[n] <= L
  View<const I, 1> ends;    // [N]
  View<T, 3> out;           // [B, N, C]

  TW_INLINE int64_t blocks() const { return (x.size(2) + kColumns - 1) / kColumns; }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.size(0) * starts.size(0) * blocks()).over_at_most(x.size(2), kColumns);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const int64_t row = index_quotient(p.index(), blocks());
    const int64_t b = index_quotient(row, starts.size(0)), n = row - b * starts.size(0);
    const int64_t column = (p.index() - row * blocks()) * kColumns, rest = x.size(2) - column;
    const int64_t columns = rest < kColumns ? rest : kColumns;
    const int64_t first = int64_t(starts(n)), count = int64_t(ends(n)) - first;
    tile::require_index(p, first, x.size(1) + 1);
    tile::require_index(p, count, x.size(1) + 1 - first);
    const float share = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
    const auto to = out[b][n].part(column, columns);
    tile::for_row<float, 4>(p, columns, [&](auto at) {
      typename decltype(at)::Vec sum{};
      for (int64_t i = first; i < first + count; ++i)
        sum = sum + tile::load(x[b][i].part(column, columns), at);
      tile::store(p, to, at, sum * share);
    });
  }
};

}  // namespace tw::kernels
