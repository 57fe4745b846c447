// The arguments of a linear layer and the cross-entropy of its logits, which runs as a sequence of
// other kernels (ops/fused_linear_cross_entropy.h). On a GPU, where the host sees no element, there
// is a program to end with: it adds up the losses, and scales the gradients by what labels count.
#pragma once

#include "tilewright/kernels/cross_entropy.h"

namespace tw::kernels {

template <class T, class I>
struct FusedLinearCrossEntropy {
  View<const T, 2> x;       // [rows, features]
  View<const T, 2> weight;  // [vocabulary, features]
  View<const I, 1> target;  // [rows]
  int64_t ignore_index;
  int reduction;  // a LossReduction, but not kNone
  tile::compute_t<T> label_smoothing;
  tile::compute_t<T> z_loss;
  Rows<T> loss;               // one element
  View<T, 2> x_grad;          // [rows, features], or no data
  View<T, 2> weight_grad;     // [vocabulary, features], or no data
  View<const T, 1> losses{};  // [rows], which the kernels before have computed

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (!P::kOnGpu) return tile::plan_of(0);
    tile::Plan plan = tile::plan_of(1).over(x.size(1));
    plan.phases = 2;
    if (is_mean() || x.size(0) == 0) plan.grid[1] = x_rows() + weight_rows();
    plan.workspace_bytes = sizeof(float);
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    float* const scale = p.template workspace<float>();
    if (p.phase() == 0) {
      const float counted = is_mean() ? count_labels(p, target, ignore_index) : 1.0f;
      const float total =
          tile::reduce_row(p, tile::Sum{}, losses, [&](auto at) { return tile::load(losses, at); });
      loss(0, 0) = T(total / counted);
      *scale = counted > 0 ? 1 / counted : 0.0f;
      return;
    }
    const View<T, 1> row =
        p.index() < x_rows() ? x_grad[p.index()] : weight_grad[p.index() - x_rows()];
    using V = typename P::template Vec<float>;
    const auto run = [&](const auto& to) {
      tile::for_row(p, to, [&](auto at) {
        tile::store_cached(to, at, x.size(0) == 0 ? V{} : tile::load(to, at) * *scale);
      });
    };
    tile::with_rows(p, run, row);
  }

 private:
  TW_INLINE bool is_mean() const { return reduction == int(LossReduction::kMean); }
  TW_INLINE int64_t x_rows() const { return x_grad ? x_grad.size(0) : 0; }
  TW_INLINE int64_t weight_rows() const { return weight_grad ? weight_grad.size(0) : 0; }
};

}  // namespace tw::kernels
