// The way back from rows that were read by number: which positions of a list name a row, and sums
// over them in their order.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// The positions 0 .. count of each of `rows` rows, after a counting sort into memory that is
/// given: rows + 1 and count numbers.
struct RowPositions {
  int64_t* ends;  // [row]: where the positions of the row begin, [row + 1]: where they end
  int64_t rows, count;

  TW_INLINE static int64_t bytes(int64_t rows, int64_t count) {
    return (rows + 1 + count) * int64_t{sizeof(int64_t)};
  }
  TW_INLINE int64_t* positions() const { return ends + rows + 1; }

  /// row_of(i) is the row of position i; below 0: of none.
  template <class F>
  TW_INLINE void sort(F&& row_of) const {
    for (int64_t v = 0; v <= rows; ++v) ends[v] = 0;
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t row = row_of(i); row >= 0) ++ends[row + 1];
    for (int64_t v = 0; v < rows; ++v) ends[v + 1] += ends[v];
    // Placing moves each start to its end, so the starts are one entry further on.
    for (int64_t v = rows; v > 0; --v) ends[v] = ends[v - 1];
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t row = row_of(i); row >= 0) positions()[ends[row + 1]++] = i;
  }
  /// f(i) for the positions of a row, in order.
  template <class F>
  TW_INLINE void for_each(int64_t row, F&& f) const {
    for (int64_t i = ends[row]; i < ends[row + 1]; ++i) f(positions()[i]);
  }
};

/// to = the sum of what for_rows(add) adds by add(row, weight); in float32, in scratch of as many
/// floats.
template <class P, class T, class F>
TW_INLINE void sum_rows(P p, const View<T, 1>& to, F&& for_rows) {
  using V = typename P::template Vec<float>;
  const View<float, 1> sum = view(p.template scratch<float>(), to.size(0));
  tile::for_row(p, sum, [&](auto at) { tile::store_cached(sum, at, V{}); });
  for_rows([&](const View<const T, 1>& row, float weight) {
    tile::with_rows(
        p,
        [&](const auto& from, const auto& total) {
          tile::for_row(p, total, [&](auto at) {
            tile::store_cached(
                total, at,
                tile::fma(tile::splat<V>(weight), tile::load(from, at), tile::load(total, at)));
          });
        },
        row, sum);
  });
  tile::with_rows(
      p,
      [&](const auto& total, const auto& out) {
        tile::for_row(p, out, [&](auto at) { tile::store(p, out, at, tile::load(total, at)); });
      },
      sum, to);
}

}  // namespace tw::kernels
