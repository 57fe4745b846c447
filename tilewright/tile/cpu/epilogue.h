// From a tile of sums in L1 to the rows of an output.
#pragma once

#include "tilewright/tile/cpu/mma.h"
#include "tilewright/tile/cpu/primitives.h"

namespace tw::tile {

/// What a matrix multiplication does to a finished tile: e(p, tile, first row, rows, first column,
/// columns), before which prefetch() is told the same.
template <class E, class P, class Sum = float>
concept TileEpilogue = requires(const E e, P p, const Sum* tile, int64_t at, int rows) {
  e.prefetch(p, at, rows, at, at);
  e(p, tile, at, rows, at, at);
};

/// out(row + r, column + c) = f(tile[r * kPanelWidth + c], at, row + r), rows x columns of it,
/// where `at` is the Span of the output columns. Stores stay in the caches, because whoever reads
/// them is next, unless they go `around` them.
template <class P, class Sum, class T, class F>
TW_INLINE void store_tile(P, const Sum* tile, int64_t row, int rows, int64_t column,
                          int64_t columns, const Rows<T>& out, F&& f, bool around = false) {
  using V = typename P::template Vec<Sum>;
  constexpr int kN = P::template kLanes<float>;
  for (int r = 0; r < rows; ++r, tile += kPanelWidth) {
    const View<T, 1> to = out.row(row + r);
    T* const first = to.data + column * to.stride(0);
    const bool streams = around && to.stride(0) == 1 && uint64_t(first) % (kN * sizeof(T)) == 0;
    int64_t c = 0;
    for (; c + kN <= columns; c += kN) {
      const V v = f(load<V>(tile + c), Span<P, float, true>{column + c, kN}, row + r);
      if (streams)
        stream(first + c, v);
      else if (to.stride(0) == 1) [[likely]]
        store(first + c, v);
      else
        scatter(first + c * to.stride(0), to.stride(0), v);
    }
    if (c < columns) {
      const int rest = int(columns - c);
      const V v = f(load<V>(tile + c), Span<P, float, false>{column + c, rest}, row + r);
      if (to.stride(0) == 1) [[likely]]
        store_partial(first + c, v, rest);
      else
        scatter(first + c * to.stride(0), to.stride(0), v, rest);
    }
  }
}

/// Fetches the lines that store_tile will write, while the tile is still being computed.
template <class T>
TW_INLINE void prefetch_tile(int64_t row, int rows, int64_t column, int64_t columns,
                             const Rows<T>& out) {
  if (out.col_stride != 1) return;
  for (int r = 0; r < rows; ++r) {
    const char* line = reinterpret_cast<const char*>(out.row(row + r).data + column);
    const char* end = line + columns * int64_t{sizeof(T)};
    for (; line < end; line += 64) __builtin_prefetch(line, 1, 3);
  }
}

}  // namespace tw::tile
