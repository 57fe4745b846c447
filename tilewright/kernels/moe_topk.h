// The experts of each token, and their weights (Shazeer et al., arXiv:1701.06538; with a bias that
// only selects, DeepSeek-V3, arXiv:2412.19437, eq. 16):
//
//   scores = softmax(gating) or sigmoid(gating); the top_k largest of gating, or of scores + bias
//
// One program per token, which takes the largest and strikes it out top_k times: experts are few.
// On a GPU see moe_topk_gpu.h.
#pragma once

#include "tilewright/kernels/moe_scores.h"
#include "tilewright/kernels/moe_topk_gpu.h"

namespace tw::kernels {

template <class T>
struct MoeTopk {
  View<const T, 2> gating;  // [tokens, experts]
  int64_t top_k;
  View<const float, 1> bias;  // [experts], or no data
  int scoring;                // 0: softmax, 1: sigmoid
  bool renormalize;
  View<float, 2> weights;  // [tokens, top_k]
  View<int32_t, 2> ids;    // [tokens, top_k]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu)
      if (const auto few = on_gpu<P>(); few.takes()) return few.plan();
    return tile::plan_of(gating.size(0), 2 * gating.size(1) * int64_t{sizeof(float)})
        .over_at_most(gating.size(1), 1024);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    if (const auto few = on_gpu<P>(); few.takes()) return few(p);
#endif
    choose(p);
  }

 private:
  template <class P>
  TW_INLINE MoeTopkOnGpu<P, T> on_gpu() const {
    return {gating, top_k, bias, scoring == 1, renormalize, weights, ids};
  }
  template <class P>
  TW_CALLED void choose(P p) const {
    using V = typename P::template Vec<float>;
    const int64_t experts = gating.size(1), token = p.index();
    const View<float, 1> scores = view(p.template scratch<float>(), experts);
    const View<float, 1> keys = view(scores.data + experts, experts);
    const float total = moe_scores(p, gating[token], scoring, scores);
    tile::for_row(p, keys, [&](auto at) {
      V key = bias ? tile::load(scores, at) / total + tile::load(bias, at)
                   : tile::load(gating[token], at);
      key = tile::select(key > kLowestGate, key, tile::splat<V>(kLowestGate));
      tile::store_cached(keys, at, key);
    });
    tile::sync(p);
    float chosen = 0;
    for (int64_t k = 0; k < top_k; ++k) {
      const float best = tile::reduce_row(p, tile::MaxOfNumbers{}, keys,
                                          [&](auto at) { return tile::load(keys, at); });
      const int64_t expert = tile::find_first(p, keys, best);
      const float weight = scores(expert) / total;
      chosen += weight;
      weights(token, k) = weight;
      ids(token, k) = int32_t(expert);
      tile::sync(p);
      keys(expert) = -__builtin_inff();
      tile::sync(p);
    }
    for (int64_t k = 0; renormalize && k < top_k; ++k)
      weights(token, k) = weights(token, k) / chosen;
  }
};

}  // namespace tw::kernels
