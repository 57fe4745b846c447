// The arguments of a layer of experts, which runs as a sequence of other kernels
// (ops/fused_experts.h), and the program that the sequence has of its own: the rows of x in the
// order of their experts.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct FusedExperts {
  View<const T, 2> x;                 // [tokens, hidden]
  View<const T, 3> gate_up_proj;      // [experts, 2 inner, hidden]
  View<const T, 3> down_proj;         // [experts, hidden, inner]
  View<const float, 2> topk_weights;  // [tokens, top_k]
  View<const int32_t, 2> topk_ids;    // [tokens, top_k]; -1: an expert elsewhere
  int activation;                     // a GatedActivation
  tile::compute_t<T> scale;
  View<T, 2> out;                  // [tokens, hidden]
  View<const int32_t, 1> order{};  // [entries], as MoeAlign has it
  View<T, 2> gathered{};           // [entries, hidden]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.size(1) > 0 ? gathered.size(0) : 0).over(x.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using V = typename P::template Vec<float>;
    const int64_t entry = order(p.index());
    const View<T, 1> to = gathered[p.index()];
    if (entry >= order.size(0)) {  // of no expert that is here
      tile::for_row(p, to, [&](auto at) { tile::store(p, to, at, V{}); });
      return;
    }
    tile::map_row<float>(p, to, [](auto v) { return v; }, x[entry / topk_ids.size(1)]);
  }
};

}  // namespace tw::kernels
