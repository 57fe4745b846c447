// The gradient of topk's values: each goes where it was found, all else is 0. One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct TopkBackward {
  Rows<const T> grad;           // [*, k]
  Rows<const int32_t> indices;  // [*, k], different ones; -1: nowhere
  Rows<const T> x;              // [*, cols], for its shape
  Rows<T> x_grad;               // [*, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x_grad.cols > 0 ? x_grad.rows : 0).over(x_grad.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using V = typename P::template Vec<float>;
    const View<T, 1> to = x_grad.row(p.index());
    const View<const T, 1> from = grad.row(p.index());
    const View<const int32_t, 1> places = indices.row(p.index());
    tile::with_rows(
        p,
        [&](const auto& row) {
          tile::for_row(p, row, [&](auto at) { tile::store_cached(row, at, V{}); });
        },
        to);
    tile::sync(p);
    tile::for_row(p, places.size(0), [&](auto at) {
      for (int64_t i = at.offset; i < at.offset + at.count; ++i) {
        if (places(i) < 0) continue;
        tile::require_index(p, places(i), to.size(0));
        to(places(i)) = from(i);
      }
    });
  }
};

}  // namespace tw::kernels
