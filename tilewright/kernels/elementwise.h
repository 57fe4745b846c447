// The elementwise skeleton: out[i] = f(in0[i], in1[i], ...) with every operand already broadcast to
// the shape of `out` (ops/core/call.h merges what can be merged, so that contiguous operands arrive
// as one long row). f is called with vectors of the arithmetic type.
//
// One program per 16 Ki elements: a few microseconds of work, small enough to balance.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

inline constexpr int64_t kElementwiseBlock = 16 << 10;

/// How `out` is cut: long rows into column blocks, short rows into groups of whole rows.
struct ElementwiseGrid {
  int64_t blocks_per_row = 1, rows_per_block = 1, programs = 0;

  template <class T>
  TW_INLINE static ElementwiseGrid of(const Rows<T>& out) {
    ElementwiseGrid grid;
    if (out.rows == 0 || out.cols == 0) return grid;
    grid.blocks_per_row = (out.cols + kElementwiseBlock - 1) / kElementwiseBlock;
    if (grid.blocks_per_row == 1)
      grid.rows_per_block = (kElementwiseBlock + out.cols - 1) / out.cols;
    grid.programs =
        (out.rows + grid.rows_per_block - 1) / grid.rows_per_block * grid.blocks_per_row;
    return grid;
  }
};

/// The work of one program: f over its block, in arithmetic type C.
template <class C, class P, class T, class F, class... In>
TW_INLINE void elementwise(P p, const Rows<T>& out, F&& f, const Rows<const In>&... in) {
  const ElementwiseGrid grid = ElementwiseGrid::of(out);
  const int64_t first_row = p.index() / grid.blocks_per_row * grid.rows_per_block;
  const int64_t begin = p.index() % grid.blocks_per_row * kElementwiseBlock;
  const int64_t rest = out.cols - begin;
  const int64_t count = rest < kElementwiseBlock ? rest : kElementwiseBlock;
  const int64_t last_row = first_row + grid.rows_per_block;
  const auto run = [&](const auto& to_rows, const auto&... from_rows) {
    for (int64_t r = first_row; r < last_row && r < out.rows; ++r) {
      const auto to = to_rows.row(r).part(begin, count);
      [&](const auto&... from) {
        tile::for_row<C>(p, count,
                         [&](auto at) { tile::store(p, to, at, f(tile::load(from, at)...)); });
      }(from_rows.row(r).part(begin, count)...);
    }
  };
  tile::with_rows(p, run, out, in...);
}

}  // namespace tw::kernels
