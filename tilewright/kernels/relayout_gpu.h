// The schedule of a relayout (relayout.h) on a GPU: blocks are turned in shared memory.
#pragma once

#include "tilewright/kernels/relayout.h"

namespace tw::kernels {

/// Worked out on the host: every thread uses it.
template <class P, class U>
struct RelayoutOnGpu : RelayoutCut<U, tile::kTurnedBlock<U>, tile::kTurnedBlock<U>> {
  using Cut = RelayoutCut<U, tile::kTurnedBlock<U>, tile::kTurnedBlock<U>>;
  using Cut::block_at, Cut::blocks, Cut::dims, Cut::for_rows, Cut::grid, Cut::turned;
  static constexpr int64_t kTurnedColumns = 8192;  // threads of a GPU's block: 256

  TW_INLINE RelayoutOnGpu(const Rows<const U>& x, const Rows<U>& out)
      : Cut(x, out, [](const auto& shape) { return ElementwiseGrid::of<P>(shape); }) {}

  TW_INLINE tile::Plan plan() const {
    if (turned) return tile::plan_of(blocks(), P::template kTurnedBytes<U>).over(kTurnedColumns);
    const int64_t cols = dims.rank > 0 ? dims.sizes[dims.rank - 1] : 0, width = grid.block;
    return tile::plan_of(grid.programs).over(cols < width ? cols : width);
  }

  TW_INLINE void operator()(P p) const {
    if (turned)
      turn(p);
    else
      for_rows(p.index(), [&](const auto& in, const auto& out) {
        tile::map_row<U>(p, out, [](auto v) { return v; }, in);
      });
  }

 private:
  TW_INLINE void turn(P p) const {
    const int last = dims.rank - 1, unit = last - 1;
    const auto block = block_at(p.index());
    tile::turn_block(p, block.from, dims.from[last], block.to, dims.to[unit], dims.to[last],
                     block.units, block.lasts);
  }
};

template <class P, class U>
TW_INLINE RelayoutOnGpu<P, U> relayout_on_gpu(const Rows<const U>& x, const Rows<U>& out) {
  return {x, out};
}

}  // namespace tw::kernels
