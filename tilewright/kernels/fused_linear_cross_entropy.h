// The arguments of a linear layer and the cross-entropy of its logits, which runs as a sequence of
// other kernels (ops/fused_linear_cross_entropy.h) and has no program of its own.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T, class I>
struct FusedLinearCrossEntropy {
  View<const T, 2> x;       // [rows, features]
  View<const T, 2> weight;  // [vocabulary, features]
  View<const I, 1> target;  // [rows]
  int64_t ignore_index;
  int reduction;  // a LossReduction, but not kNone
  float label_smoothing;
  float z_loss;
  Rows<T> loss;            // one element
  View<T, 2> x_grad;       // [rows, features], or no data
  View<T, 2> weight_grad;  // [vocabulary, features], or no data

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(0);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P) const {}
};

}  // namespace tw::kernels
