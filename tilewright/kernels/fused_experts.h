// The arguments of a layer of experts, which runs as a sequence of other kernels
// (ops/fused_experts.h) and has no program of its own.
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
  View<T, 2> out;  // [tokens, hidden]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return {};
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P) const {}
};

}  // namespace tw::kernels
