// The elementwise skeleton: out[i] = f(in0[i], in1[i], ...) with every operand already broadcast to
// the shape of `out` (ops/core/call.h merges what can be merged, so that contiguous operands arrive
// as one long row). f is called with vectors of the arithmetic type.
//
// One program per 16 Ki elements: a few microseconds of work, small enough to balance. On a GPU a
// thread has 32 of them at most, and a short row is a program.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class P>
inline constexpr int64_t kElementwiseBlock = P::kOnGpu ? 4 << 10 : 16 << 10;

/// How `out` is cut: long rows into column blocks, short rows into groups of whole rows.
struct ElementwiseGrid {
  int64_t blocks_per_row = 1, rows_per_block = 1, programs = 0;

  template <class P, class T>
  TW_INLINE static ElementwiseGrid of(const Rows<T>& out) {
    constexpr int64_t kBlock = kElementwiseBlock<P>;
    ElementwiseGrid grid;
    if (out.rows == 0 || out.cols == 0) return grid;
    grid.blocks_per_row = (out.cols + kBlock - 1) / kBlock;
    if (grid.blocks_per_row == 1 && !P::kOnGpu)
      grid.rows_per_block = (kBlock + out.cols - 1) / out.cols;
    grid.programs =
        (out.rows + grid.rows_per_block - 1) / grid.rows_per_block * grid.blocks_per_row;
    return grid;
  }
};

template <class P, class T>
TW_INLINE tile::Plan plan_elementwise(const Rows<T>& out) {
  constexpr int64_t kBlock = kElementwiseBlock<P>;
  return tile::plan_of(ElementwiseGrid::of<P>(out).programs)
      .over(out.cols < kBlock ? out.cols : kBlock);
}

/// The columns [begin, begin + count) of a row.
template <class T>
TW_INLINE View<T, 1> columns_of(const Rows<T>& rows, int64_t row, int64_t begin, int64_t count) {
  View<T, 1> out = rows.row(row);
  out.data += begin * out.strides[0];
  out.sizes[0] = count;
  return out;
}

/// The work of one program: f over its block, in arithmetic type C.
template <class C, class P, class T, class F, class... In>
TW_INLINE void elementwise(P p, const Rows<T>& out, F&& f, const Rows<const In>&... in) {
  constexpr int64_t kBlock = kElementwiseBlock<P>;
  const ElementwiseGrid grid = ElementwiseGrid::of<P>(out);
  int64_t first_row = 0, block = p.index();
  if (out.rows > 1) {  // spares two divisions, which a GPU does not have
    first_row = p.index() / grid.blocks_per_row * grid.rows_per_block;
    block = p.index() % grid.blocks_per_row;
  }
  const int64_t begin = block * kBlock, rest = out.cols - begin;
  const int64_t count = rest < kBlock ? rest : kBlock;
  for (int64_t r = first_row; r < first_row + grid.rows_per_block && r < out.rows; ++r) {
    const View<T, 1> to = columns_of(out, r, begin, count);
    tile::map_row<C>(p, to, f, columns_of(in, r, begin, count)...);
  }
}

}  // namespace tw::kernels
