// Rows of a table by index: out[i] = weight[indices[i]], T the bits of an element (relayout.h). One
// program per index, or on a CPU for some.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class I>
struct Embedding {
  View<const T, 2> weight;  // [vocabulary, cols]
  Rows<const I> indices;    // [*], each in 0 .. vocabulary
  Rows<T> out;              // [*, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    const int64_t groups = tile::row_groups<P>(out.rows, out.cols, machine);
    return tile::plan_of(out.cols > 0 ? groups : 0).over(out.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const tile::RowGroup group = tile::row_group(p, out.rows, out.cols);
    TW_ROLLED
    for (int64_t i = group.first; i < group.last; ++i) {
      const int64_t index = int64_t(indices(i, 0));
      tile::require_index(p, index, weight.size(0));
      tile::map_row<T>(p, out.row(i), [](auto v) { return v; }, weight[index]);
    }
  }
};

}  // namespace tw::kernels
