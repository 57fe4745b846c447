// Elements from one strided layout into another: what copy, transpose and permute share.
//
// The dimensions of both sides are brought to a common list and reordered so that the last one is
// contiguous in the destination. Where the source is contiguous along another one, blocks of both
// are turned over; otherwise rows are copied as they come.
// Values are moved as bits: elements are unsigned integers of their width.
#pragma once

#include "tilewright/kernels/elementwise.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// The dimensions of a relayout, sizes above 1 only; `from` and `to` are strides.
struct RelayoutDims {
  static constexpr int kMaxRank = 16;
  int rank = 0;
  int64_t sizes[kMaxRank], from[kMaxRank], to[kMaxRank];

  TW_INLINE void push(int64_t size, int64_t from_stride, int64_t to_stride) {
    sizes[rank] = size;
    from[rank] = from_stride;
    to[rank++] = to_stride;
  }
  TW_INLINE void swap(int a, int b) {
    const auto exchange = [&](int64_t* values) {
      const int64_t t = values[a];
      values[a] = values[b];
      values[b] = t;
    };
    exchange(sizes);
    exchange(from);
    exchange(to);
  }

  /// Outermost dimension first. Each side may have merged its leading dimensions differently, but
  /// both are coarsenings of the same list: from the inside, the smaller size is common to both.
  template <class U>
  TW_INLINE static RelayoutDims of(const Rows<const U>& x, const Rows<U>& out) {
    RelayoutDims inner;  // innermost first
    if (out.cols != 1) inner.push(out.cols, x.col_stride, out.col_stride);
    int a = x.lead, b = out.lead;
    int64_t size_a = 1, size_b = 1, from_stride = 0, to_stride = 0;
    for (;;) {
      while (size_a == 1 && a > 0) size_a = x.lead_sizes[--a], from_stride = x.lead_strides[a];
      while (size_b == 1 && b > 0) size_b = out.lead_sizes[--b], to_stride = out.lead_strides[b];
      const int64_t common = size_a < size_b ? size_a : size_b;
      if (common <= 1) break;
      inner.push(common, from_stride, to_stride);
      size_a /= common, from_stride *= common;
      size_b /= common, to_stride *= common;
    }
    RelayoutDims outer;
    for (int d = inner.rank - 1; d >= 0; --d)
      outer.push(inner.sizes[d], inner.from[d], inner.to[d]);
    return outer;
  }

  /// Neighbours that both sides walk like one dimension made one: longer runs.
  TW_INLINE void merge() {
    int kept = 0;
    for (int d = 1; d < rank; ++d) {
      if (from[kept] == from[d] * sizes[d] && to[kept] == to[d] * sizes[d])
        sizes[kept] *= sizes[d];
      else
        sizes[++kept] = sizes[d];
      from[kept] = from[d];
      to[kept] = to[d];
    }
    if (rank > 0) rank = kept + 1;
  }
};

/// How a relayout is cut into programs, on every target. A turned block is kUnits of the source's
/// columns by kLasts of its rows.
template <class P, class U, int64_t kUnits, int64_t kLasts>
struct RelayoutCut {
  const U* from;
  U* to;
  RelayoutDims dims;     // [outer..., unit if turned, last]
  bool turned = false;   // the source is contiguous along the dimension before the last
  int outer = 0;         // leading dimensions walked one index at a time
  int64_t rows = 1;      // product of the outer sizes
  ElementwiseGrid grid;  // of rows x last, if not turned
  int64_t unit_blocks = 1, last_blocks = 1;

  TW_INLINE RelayoutCut(const Rows<const U>& x, const Rows<U>& out) : from(x.data), to(out.data) {
    if (out.rows == 0 || out.cols == 0) return;
    dims = RelayoutDims::of(x, out);
    if constexpr (!P::kOnGpu) dims.merge();
    if (dims.rank == 0) dims.push(1, 1, 1);
    const int last = dims.rank - 1;
    for (int d = last; d >= 0; --d) {
      if (dims.to[d] != 1) continue;
      dims.swap(d, last);
      break;
    }
    for (int d = 0; d < last && dims.from[last] != 1; ++d) {
      if (dims.from[d] != 1) continue;
      dims.swap(d, last - 1);
      turned = true;
      break;
    }
    outer = turned ? last - 1 : last;
    for (int d = 0; d < outer; ++d) rows *= dims.sizes[d];
    if (turned) {
      unit_blocks = (dims.sizes[last - 1] + kUnits - 1) / kUnits;
      last_blocks = (dims.sizes[last] + kLasts - 1) / kLasts;
    } else {
      Rows<U> shape;
      shape.rows = rows;
      shape.cols = dims.sizes[last];
      grid = ElementwiseGrid::of<P>(shape);
    }
  }

  /// Blocks of a turned relayout.
  TW_INLINE int64_t blocks() const { return rows * unit_blocks * last_blocks; }

  /// One of them: units and lasts count the source's columns and rows.
  struct Block {
    const U* from;
    U* to;
    int64_t units, lasts;
  };
  TW_INLINE Block block_at(int64_t i) const {
    const int last = dims.rank - 1, unit = last - 1;
    const int64_t by_unit = index_quotient(i, unit_blocks);
    const int64_t by_last = index_quotient(by_unit, last_blocks);
    const int64_t u = (i - by_unit * unit_blocks) * kUnits;
    const int64_t v = (by_unit - by_last * last_blocks) * kLasts;
    int64_t source, target;
    offsets(by_last, source, target);
    const int64_t rest_u = dims.sizes[unit] - u, rest_v = dims.sizes[last] - v;
    return {from + source + u + v * dims.from[last],
            to + target + u * dims.to[unit] + v * dims.to[last], rest_u < kUnits ? rest_u : kUnits,
            rest_v < kLasts ? rest_v : kLasts};
  }

  /// Calls copy_row(source, target) for the row parts of program i of a relayout as it comes.
  template <class CopyRow>
  TW_INLINE void for_rows(int64_t i, CopyRow&& copy_row) const {
    const int last = dims.rank - 1;
    const int64_t group = rows > 1 ? index_quotient(i, grid.blocks_per_row) : 0;
    const int64_t begin = (i - group * grid.blocks_per_row) * grid.block;
    const int64_t rest = dims.sizes[last] - begin;
    const int64_t count = rest < grid.block ? rest : grid.block;
    const int64_t first = group * grid.rows_per_block;
    for (int64_t r = first; r < first + grid.rows_per_block && r < rows; ++r) {
      int64_t source, target;
      offsets(r, source, target);
      const View<const U, 1> in{
          from + source + begin * dims.from[last], {count}, {dims.from[last]}};
      const View<U, 1> out{to + target + begin * dims.to[last], {count}, {dims.to[last]}};
      copy_row(in, out);
    }
  }

  /// Offsets of both sides at row i of the outer dimensions.
  TW_INLINE void offsets(int64_t i, int64_t& source, int64_t& target) const {
    source = target = 0;
    for (int d = outer - 1; d >= 0; --d) {
      const int64_t next = d > 0 ? index_quotient(i, dims.sizes[d]) : 0;
      const int64_t index = i - next * dims.sizes[d];
      i = next;
      source += index * dims.from[d];
      target += index * dims.to[d];
    }
  }
};

/// The same rows, their elements as bits.
template <class U, class T>
TW_INLINE Rows<U> rows_as(const Rows<T>& rows) {
  Rows<U> out;
  out.data = reinterpret_cast<U*>(rows.data);
  out.rows = rows.rows;
  out.cols = rows.cols;
  out.col_stride = rows.col_stride;
  out.lead = rows.lead;
  TW_UNROLL  // on a GPU an array indexed by constants stays in registers
      for (int d = 0; d < Rows<T>::kMaxLead; ++d) {
    out.lead_sizes[d] = rows.lead_sizes[d];
    out.lead_strides[d] = rows.lead_strides[d];
  }
  return out;
}

}  // namespace tw::kernels
