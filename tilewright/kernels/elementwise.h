// The elementwise skeleton: out[i] = f(in0[i], in1[i], ...) with every operand already broadcast to
// the shape of `out` (ops/core/call.h merges what can be merged, so that contiguous operands arrive
// as one long row). f is called with vectors of the arithmetic type.
//
// One program per 16 Ki elements: a few microseconds of work, small enough to balance. On a GPU a
// thread has 32 of them at most, and a short row is a program.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// The logarithm of the elements of a program, of so many in all: 64-bit integers divide slowly on
/// a GPU.
template <class P>
TW_INLINE int elementwise_bits(int64_t all) {
  if constexpr (P::kOnGpu)  // small tensors: a span for each thread, and all of these at once
    return all <= 1 << 20 ? 8 : all < 4 << 20 ? 10 : 12;
  else
    return 14;
}
template <class P, class T>
TW_INLINE int elementwise_bits(const Rows<T>& out) {
  return elementwise_bits<P>(out.rows > 1 ? out.rows * out.cols : out.cols);
}
template <class P, class T>
TW_INLINE int64_t elementwise_block(const Rows<T>& out) {
  return int64_t{1} << elementwise_bits<P>(out);
}

/// How `out` is cut: long rows into column blocks, short rows into groups of whole rows.
struct ElementwiseGrid {
  int64_t block = 0, blocks_per_row = 1, rows_per_block = 1, programs = 0;

  template <class P, class T>
  TW_INLINE static ElementwiseGrid of(const Rows<T>& out) {
    ElementwiseGrid grid;
    const int bits = elementwise_bits<P>(out);
    grid.block = int64_t{1} << bits;
    grid.blocks_per_row = (out.cols + grid.block - 1) >> bits;
    if (grid.blocks_per_row == 1 && !P::kOnGpu)
      grid.rows_per_block = (grid.block + out.cols - 1) / out.cols;
    grid.programs =
        (out.rows + grid.rows_per_block - 1) / grid.rows_per_block * grid.blocks_per_row;
    return grid;
  }
};

template <class P, class T>
TW_INLINE tile::Plan plan_elementwise(const Rows<T>& out) {
  const int64_t block_size = elementwise_block<P>(out);
  return tile::plan_of(ElementwiseGrid::of<P>(out).programs)
      .over(out.cols < block_size ? out.cols : block_size);
}

/// What a program has: columns [begin, begin + count) of rows [first_row, end_row).
struct ElementwiseBlock {
  int64_t first_row, end_row, begin, count;
};
/// Divisions, which a GPU does not have and the first load would wait for, are of several rows
/// alone, and of these of rows that are several blocks.
template <class P, class T>
TW_INLINE ElementwiseBlock block_of(P p, const Rows<T>& out) {
  const auto grid = ElementwiseGrid::of<P>(out);
  const int64_t per_row = grid.blocks_per_row, rows = grid.rows_per_block, size = grid.block;
  int64_t group = 0, block = p.index();
  if (out.rows > 1) {
    group = per_row > 1 ? index_quotient(block, per_row) : block;
    block -= group * per_row;
  }
  const int64_t first_row = group * rows;
  const int64_t left = out.rows - first_row, begin = block * size, rest = out.cols - begin;
  return {first_row, first_row + (left < rows ? left : rows), begin, rest < size ? rest : size};
}

/// Calls f(number of the block's first element, views of the block...). On a GPU, where a block is
/// of one row; kIsAdjacent: whose elements lie side by side.
template <bool kIsAdjacent = false, class P, class T, class F, class... In>
TW_INLINE void with_block(P p, const Rows<T>& out, F&& f, const Rows<In>&... in) {
  const ElementwiseBlock block = block_of(p, out);
  const auto part = [&]<class U>(const Rows<U>& rows) -> View<U, 1> {
    const int64_t stride = kIsAdjacent ? 1 : rows.col_stride;
    return {rows.data + block.begin * stride, {block.count}, {stride}};
  };
  const auto run = [&](View<T, 1> to, View<In, 1>... from) {
    if (out.rows > 1) {  // one branch for all operands
      to.data += out.row(block.first_row).data - out.data;
      ((from.data += in.row(block.first_row).data - in.data), ...);
    }
    f(block.first_row * out.cols + block.begin, to, from...);
  };
  run(part(out), part(in)...);
}

#if defined(__CUDACC__)
/// Whether rows of one leading dimension lie side by side, so that lines of memory are columns.
template <class T>
TW_INLINE bool is_turned(const Rows<T>& rows) {
  return rows.col_stride * int64_t{sizeof(T)} > 64 && rows.lead_strides[0] == 1;
}

/// What a program has where an operand is turned: some columns of so many rows, instead of as many
/// columns of one.
template <class P, class T>
TW_INLINE ElementwiseBlock turned_block_of(P p, const Rows<T>& out) {
  constexpr int64_t kLine = 16;  // columns: of two spans
  const int64_t per_row = ElementwiseGrid::of<P>(out).blocks_per_row;
  const int64_t group = index_quotient(p.index(), tile::kTurnedRows * per_row);
  const int64_t first = group * tile::kTurnedRows, left = out.rows - first;
  const int64_t rows = left < tile::kTurnedRows ? left : tile::kTurnedRows;
  const int64_t programs = rows * per_row;  // that share these rows
  const int64_t lines = (out.cols + kLine - 1) / kLine;
  const int64_t width = index_quotient(lines + programs - 1, programs) * kLine;
  const int64_t begin = (p.index() - first * per_row) * width, rest = out.cols - begin;
  return {first, first + rows, begin, rest < width ? rest : width};
}
/// The logarithm of so many rows, rounded up: what is left of kTurnedRows has threads for itself.
TW_INLINE int row_bits(int64_t rows) {
  int bits = 0;
  TW_ROLLED
  while (int64_t{1} << bits < rows) ++bits;
  return bits;
}
/// The work of one program on a GPU where rows are not all aligned.
template <class C, class P, class T, class F, class... In>
TW_INLINE void map_any_block(P p, const Rows<T>& out, F&& f, const Rows<In>&... in) {
  constexpr bool kMayBeTurned = sizeof...(In) <= 2;  // registers are short with more
  const bool turned = kMayBeTurned && out.rows > 1 && (is_turned(in) || ...) && out.lead == 1 &&
                      ((in.lead == 1) && ...);
  const ElementwiseBlock block = turned ? turned_block_of(p, out) : block_of(p, out);
  if (block.count <= 0) return;
  const auto part = [&]<class U>(const Rows<U>& rows) -> View<U, 2> {
    const int64_t before = out.rows > 1 ? rows.row(block.first_row).data - rows.data : 0;
    return {rows.data + before + block.begin * rows.col_stride,
            {block.end_row - block.first_row, block.count},
            {rows.lead_strides[0], rows.col_stride}};
  };
  const int bits = turned ? row_bits(block.end_row - block.first_row) : 0;
  tile::map_rows<C>(p, bits, part(out), f, part(in)...);
}
/// The work of one program of a kernel whose row_operands these are.
template <class C, class P, class T, class F, class... In>
TW_INLINE void map_block(P p, const Rows<T>& out, F&& f, const Rows<In>&... in) {
  const auto map_row = [&](int64_t, const auto& to, const auto&... from) {
    tile::map_aligned_row<C>(p, to, f, from...);
  };
  if constexpr (P::kWay == tile::kAlignedRows)
    with_block<true>(p, out, map_row, in...);
  else
    map_any_block<C>(p, out, f, in...);
}
#endif

#if !defined(__CUDACC__)
/// What for_parts calls of each part: with copies, which no store to a row can change.
template <class T, class... In>
using PartFunction = void (*)(void* context, tile::AdjacentRow<T> to,
                              tile::AdjacentRow<const In>... from);

/// Calls f(context, rows...) of the parts of the program's block, side by side in memory or in
/// buffers: one code for all that is computed of elements of these types.
template <class P, class T, class... In>
__attribute__((noinline)) void for_parts(P p, void* context, PartFunction<T, In...> f,
                                         const Rows<T>& out, const Rows<const In>&... in) {
  const ElementwiseBlock block = block_of(p, out);
  const bool adjacent = out.col_stride == 1 && ((in.col_stride == 1) && ...);
  const auto run = [&](tile::StagedRows<T> to, auto... from) TW_INLINED {
    for (int64_t r = block.first_row; r < block.end_row; ++r) {
      for (int64_t c = 0, n; c < block.count; c += n) {
        const int64_t rest = block.count - c;
        const bool whole = adjacent || rest < tile::kStaged;
        const auto all = to.place(r, block.begin + c, whole ? rest : tile::kStaged);
        n = adjacent ? tile::first_part(all) : all.count;
        f(context, all.part(0, n), from.read(r, block.begin + c, n, c == 0)...);
        to.write(r, block.begin + c, n);
      }
    }
  };
  run({out, p.streaming()}, tile::StagedRows<const In>(in, p.streaming())...);
}
#endif

/// The work of one program: f over its block, in arithmetic type C. kChains: see tile::for_row.
template <class C, int kChains = 1, class P, class T, class F, class... In>
TW_INLINE void elementwise(P p, const Rows<T>& out, F&& f, const Rows<const In>&... in) {
  if constexpr (P::kOnGpu) {
#if defined(__CUDACC__)
    map_block<C>(p, out, f, in...);
#endif
  } else {
#if !defined(__CUDACC__)
    auto part = [&](const auto& to, const auto&... from) TW_INLINED {
      tile::for_row<C, kChains>(p, to.size(0), [&](auto at) TW_INLINED {
        if constexpr (kChains > 1) (tile::prefetch_ahead(p, from, at), ...);
        tile::store(p, to, at, f(tile::load(from, at)...));
      });
    };
    using Part = decltype(part);
    const PartFunction<T, In...> call = [](void* context, tile::AdjacentRow<T> to,
                                           tile::AdjacentRow<const In>... from) {
      (*static_cast<Part*>(context))(to, from...);
    };
    for_parts(p, &part, call, out, in...);
#endif
  }
}

}  // namespace tw::kernels
