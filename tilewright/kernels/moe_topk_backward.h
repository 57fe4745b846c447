// The gradient of moe_topk's weights by what the experts were chosen by. With p the scores of a
// token, w the weights and g their gradients (over the experts that were chosen):
//
//   s = g, or where w were made to sum to 1, (g - g . w) / sum of the chosen p; 0 for the others,
//       from the differences between g and its first: w of one expert is 1, whatever p is
//   gating_grad = p (s - s . p) of softmax, p (1 - p) s of sigmoids
//
// One program per token.
#pragma once

#include "tilewright/kernels/moe_scores.h"

namespace tw::kernels {

template <class T>
struct MoeTopkBackward {
  View<const float, 2> grad;   // [tokens, top_k]
  View<const T, 2> gating;     // [tokens, experts]
  View<const int32_t, 2> ids;  // [tokens, top_k], different ones
  int scoring;                 // 0: softmax, 1: sigmoid
  bool renormalize;
  View<T, 2> gating_grad;  // [tokens, experts]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(gating.size(1) > 0 ? gating.size(0) : 0,
                         2 * gating.size(1) * int64_t{sizeof(float)})
        .over_at_most(gating.size(1), 1024);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    tile::with_rows(
        p, [&](const auto& gates, const auto& to) { bend(p, gates, to); }, gating[p.index()],
        gating_grad[p.index()]);
  }

 private:
  template <class P, class From, class To>
  TW_INLINE void bend(P p, const From& gates, const To& to) const {
    using V = typename P::template Vec<float>;
    const int64_t experts = gating.size(1), t = p.index(), top_k = ids.size(1);
    const View<float, 1> scores = view(p.template scratch<float>(), experts);
    const View<float, 1> slopes = view(scores.data + experts, experts);
    const float share = 1.0f / moe_scores(p, gates, scoring, scores);
    const float first = renormalize && top_k > 0 ? grad(t, 0) : 0.0f;
    float chosen = 0, inner = 0;  // the sums of p and of (g - first) p over the chosen experts
    for (int64_t k = 0; k < top_k; ++k) {
      tile::require_index(p, ids(t, k), experts);
      const float score = scores(ids(t, k)) * share;
      chosen += score;
      inner += (grad(t, k) - first) * score;
    }
    const float mean = renormalize ? inner / chosen : 0.0f, over = renormalize ? chosen : 1.0f;
    const float rest = scoring == 0 && !renormalize ? -inner : 0.0f;  // s . p is 0 else
    tile::for_row(p, slopes,
                  [&](auto at) { tile::store_cached(slopes, at, tile::splat<V>(rest)); });
    tile::sync(p);
    for (int64_t k = 0; k < top_k; ++k)
      slopes(ids(t, k)) = (grad(t, k) - first - mean) / over + rest;
    tile::sync(p);
    const bool bends = scoring == 1;
    tile::for_row(p, to, [&](auto at) {
      const V score = tile::load(scores, at) * share;
      const V slope = score * tile::load(slopes, at);
      tile::store(p, to, at, bends ? slope * (1.0f - score) : slope);
    });
    tile::sync(p);  // another row of this instance writes the same memory
  }
};

}  // namespace tw::kernels
