// Rows of a table by index: out[i] = weight[indices[i]]. One program per index.
#pragma once

#include "tilewright/kernels/relayout.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class I>
struct Embedding {
  View<const T, 2> weight;  // [vocabulary, cols]
  Rows<const I> indices;    // [*], each in 0 .. vocabulary
  Rows<T> out;              // [*, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(out.cols > 0 ? out.rows : 0).over(out.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using U = bits_of<T>;
    const int64_t index = int64_t(indices(p.index(), 0));
    tile::require_index(p, index, weight.size(0));
    const auto row = weight[index];
    const View<const U, 1> from{
        reinterpret_cast<const U*>(row.data), {row.size(0)}, {row.stride(0)}};
    const auto target = out.row(p.index());
    const View<U, 1> to{reinterpret_cast<U*>(target.data), {target.size(0)}, {target.stride(0)}};
    tile::map_row<U>(p, to, [](auto v) { return v; }, from);
  }
};

}  // namespace tw::kernels
