// Elements from one strided layout into another: what copy, transpose and permute share.
//
// The dimensions of both sides are brought to a common list and reordered so that the last one is
// contiguous in the destination. Where the source is contiguous along another one, blocks of both
// are turned over in L1 and leave it in whole cache lines; otherwise rows are copied as they come.
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
    const int64_t group = index_quotient(i, grid.blocks_per_row);
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
      const int64_t next = index_quotient(i, dims.sizes[d]);
      const int64_t index = i - next * dims.sizes[d];
      i = next;
      source += index * dims.from[d];
      target += index * dims.to[d];
    }
  }
};

/// A turned block on the CPU: 1 KiB of each row that is read by 256 bytes of each that is written.
/// It and the next one fit a second-level cache.
template <class U>
inline constexpr int64_t kTurnedUnits = 1024 / int64_t{sizeof(U)};
template <class U>
inline constexpr int64_t kTurnedLasts = 256 / int64_t{sizeof(U)};

/// A relayout on the CPU.
template <class P, class U>
struct RelayoutOnCpu : RelayoutCut<P, U, kTurnedUnits<U>, kTurnedLasts<U>> {
  using Cut = RelayoutCut<P, U, kTurnedUnits<U>, kTurnedLasts<U>>;
  using Cut::block_at, Cut::blocks, Cut::dims, Cut::for_rows, Cut::grid, Cut::outer, Cut::turned;
  static constexpr int64_t kUnits = kTurnedUnits<U>, kLasts = kTurnedLasts<U>;
  static constexpr int64_t kGroupWork = kUnits * kLasts / 4;  // of a block: long groups
  static constexpr int64_t kLine = 64 / int64_t{sizeof(U)};
  static constexpr int64_t kPitch = kLasts + kLine;  // in scratch: spreads columns

  TW_INLINE RelayoutOnCpu(const Rows<const U>& x, const Rows<U>& out) : Cut(x, out) {
    if (!turned) follow_source();
  }

  TW_INLINE tile::Plan plan(const Machine& machine) const {
    if (!turned) return tile::plan_of(grid.programs);
    return tile::plan_of(tile::row_groups<P>(blocks(), kGroupWork, machine),
                         kLine * kPitch * int64_t{sizeof(U)});
  }

  TW_SHARED void operator()(P p) const {
    if (turned)
      turn(p);
    else
      for_rows(p.index(), [&](const auto& in, const auto& out) { copy_row(p, in, out); });
  }

 private:
  /// Rows in the order in which they are read, if they are whole lines where they are written:
  /// these may go to any places, where reading is quick only along memory.
  TW_INLINE void follow_source() {
    const auto distance = [&](int d) { return dims.from[d] < 0 ? -dims.from[d] : dims.from[d]; };
    if (dims.rank == 0 || dims.sizes[dims.rank - 1] % kLine != 0) return;
    for (int d = 1; d < outer; ++d)
      for (int i = d; i > 0 && distance(i - 1) < distance(i); --i) dims.swap(i - 1, i);
  }

  TW_INLINE static void copy_row(P p, const View<const U, 1>& in, const View<U, 1>& out) {
    if (out.stride(0) == 1 && in.stride(0) != 1)
      return tile::pack_apart(out.data, in.data, in.stride(0), in.size(0));
    const auto run = [&](const auto& source, const auto& target) {
      tile::for_row<U>(p, in.size(0),
                       [&](auto at) { tile::store(p, target, at, tile::load(source, at)); });
    };
    tile::with_rows(p, run, in, out);
  }

  /// A block line by line of its columns, while the next block is on its way. Memory is quick with
  /// long runs where it is read, and with any where it is written: a row's runs follow each other.
  TW_INLINE void turn(P p) const {
    const int last = dims.rank - 1;
    const int64_t step = dims.from[last], unit_step = dims.to[last - 1];
    const auto group = tile::row_group(p, blocks(), kGroupWork);
    U* const turned_line = p.template scratch<U>();  // [unit, last]
    for (int64_t i = group.first; i < group.last; ++i) {
      const auto block = block_at(i);
      Fetch fetch(step);
      if (i + 1 < group.last) fetch.begin(block_at(i + 1));
      for (int64_t u = 0; u < block.units; u += kLine) {
        const int64_t units = block.units - u < kLine ? block.units - u : kLine;
        U* const target = block.to + u * unit_step;
        fetch.proceed(p, u + units, block.units);
        if (dims.sizes[last] <= kLine && dims.to[last] == 1) {  // short runs follow each other
          tile::transpose_block(p, block.from + u, step, target, unit_step, units, block.lasts);
          continue;
        }
        tile::transpose_block(p, block.from + u, step, turned_line, kPitch, units, block.lasts);
        write_units(p, turned_line, target, units, block.lasts);
      }
    }
  }

  /// Brings a block into the second-level cache, its rows one after the other.
  struct Fetch {
    int64_t step, lines = 0, all = 0, row = 0, line = 0, done = 0;
    const U* from = nullptr;

    TW_INLINE explicit Fetch(int64_t row_step) : step(row_step) {}
    TW_INLINE void begin(const typename Cut::Block& block) {
      from = block.from;
      lines = (block.units + kLine - 1) / kLine;
      all = lines * block.lasts;
    }
    /// So much of it as `part` is of `whole`.
    TW_INLINE void proceed(P p, int64_t part, int64_t whole) {
      for (const int64_t due = all * part / whole; done < due; ++done) {
        tile::prefetch(p, View<const U, 1>{from + row * step + line * kLine, {kLine}, {1}});
        if (++line == lines) line = 0, ++row;
      }
    }
  };

  TW_INLINE void write_units(P p, const U* turned_line, U* first, int64_t units,
                             int64_t lasts) const {
    Rows<const U> in = rows(turned_line, units, lasts);
    Rows<U> out = rows(first, units, lasts);
    in.lead_strides[0] = kPitch;
    out.lead_strides[0] = dims.to[dims.rank - 2];
    out.col_stride = dims.to[dims.rank - 1];
    const auto run = [&](const auto& source, const auto& target) TW_INLINED {
      for (int64_t u = 0; u < units; ++u) {
        const auto read = source.row(u);
        const auto written = target.row(u);
        tile::for_row<U, 4>(p, lasts, [&](auto at) TW_INLINED {
          tile::store(p, written, at, tile::load(read, at));
        });
      }
    };
    tile::with_rows(p, run, in, out);
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
