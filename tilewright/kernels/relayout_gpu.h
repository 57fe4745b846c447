// The schedule of a relayout (relayout.h) on a GPU: blocks are turned in shared memory.
#pragma once

#include "tilewright/kernels/relayout.h"

namespace tw::kernels {

/// How a relayout is cut into instances on a GPU, worked out on the host: every thread uses it.
template <class P, class U>
struct RelayoutOnGpu {
  static constexpr int64_t kBlock = tile::kTurnedBlock<U>;
  static constexpr int64_t kTurnedColumns = 8192;  // threads of a GPU's block: 256

  const U* from;
  U* to;
  RelayoutDims dims;     // [outer..., unit if turned, last]
  bool turned = false;   // the source is contiguous along the dimension before the last
  int outer = 0;         // leading dimensions walked one index at a time
  int64_t rows = 1;      // product of the outer sizes
  ElementwiseGrid grid;  // of rows x last, if not turned
  int64_t unit_blocks = 1, last_blocks = 1, programs = 0;

  TW_INLINE RelayoutOnGpu(const Rows<const U>& x, const Rows<U>& out) : from(x.data), to(out.data) {
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
      unit_blocks = (dims.sizes[last - 1] + kBlock - 1) / kBlock;
      last_blocks = (dims.sizes[last] + kBlock - 1) / kBlock;
      programs = rows * unit_blocks * last_blocks;
    } else {
      Rows<U> shape;
      shape.rows = rows;
      shape.cols = dims.sizes[last];
      grid = ElementwiseGrid::of<P>(shape);
      programs = grid.programs;
    }
  }

  TW_INLINE tile::Plan plan() const {
    if (turned) return tile::plan_of(programs, P::template kTurnedBytes<U>).over(kTurnedColumns);
    const int64_t cols = dims.rank > 0 ? dims.sizes[dims.rank - 1] : 0;
    return tile::plan_of(programs).over(cols < grid.block ? cols : grid.block);
  }

  TW_INLINE void operator()(P p) const {
    if (turned)
      turn(p);
    else
      copy(p);
  }

 private:
  /// Offsets of both sides at row i of the outer dimensions.
  TW_INLINE void offsets(int64_t i, int64_t& source, int64_t& target) const {
    source = target = 0;
    for (int d = outer - 1; d >= 0; --d) {
      const int64_t index = i % dims.sizes[d];
      i /= dims.sizes[d];
      source += index * dims.from[d];
      target += index * dims.to[d];
    }
  }

  TW_INLINE void copy(P p) const {
    const int last = dims.rank - 1;
    const int64_t begin = p.index() % grid.blocks_per_row * grid.block;
    const int64_t rest = dims.sizes[last] - begin;
    const int64_t count = rest < grid.block ? rest : grid.block;
    const int64_t first = p.index() / grid.blocks_per_row * grid.rows_per_block;
    for (int64_t r = first; r < first + grid.rows_per_block && r < rows; ++r) {
      int64_t source, target;
      offsets(r, source, target);
      const View<const U, 1> in{
          from + source + begin * dims.from[last], {count}, {dims.from[last]}};
      const View<U, 1> out{to + target + begin * dims.to[last], {count}, {dims.to[last]}};
      tile::map_row<U>(p, out, [](auto v) { return v; }, in);
    }
  }

  TW_INLINE void turn(P p) const {
    const int last = dims.rank - 1, unit = last - 1;
    int64_t i = p.index();
    const int64_t u = i % unit_blocks * kBlock;
    i /= unit_blocks;
    const int64_t v = i % last_blocks * kBlock;
    int64_t source, target;
    offsets(i / last_blocks, source, target);
    const int64_t rest_u = dims.sizes[unit] - u, rest_v = dims.sizes[last] - v;
    const int64_t count_u = rest_u < kBlock ? rest_u : kBlock;
    const int64_t count_v = rest_v < kBlock ? rest_v : kBlock;
    tile::turn_block(p, from + source + u + v * dims.from[last], dims.from[last],
                     to + target + u * dims.to[unit] + v * dims.to[last], dims.to[unit],
                     dims.to[last], count_u, count_v);
  }
};

template <class P, class T>
TW_INLINE auto relayout_on_gpu(const Rows<const T>& x, const Rows<T>& out) {
  using U = bits_of<T>;
  return RelayoutOnGpu<P, U>(rows_as<const U>(x), rows_as<U>(out));
}

}  // namespace tw::kernels
