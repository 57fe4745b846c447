#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tilewright/kernels/moe_topk.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// The top_k experts of each token and their weights, the softmax or the sigmoids of `gating`. A
/// bias is added to what is compared, not to the weights. renormalize: the weights sum to 1.
struct MoeTopk {
  static constexpr Schema kSchema{
      "moe_topk(gating: T[N, E], top_k: i64, bias: f32[E]?, scoring: softmax|sigmoid = softmax, "
      "renormalize: bool = false) -> weights: f32[N, top_k], ids: i32[N, top_k]"};
  static constexpr Gradient kGradient{
      "moe_topk_backward(grad=weights.grad, gating, ids, scoring, renormalize) -> gating.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = kernels::MoeTopk<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.top_k < 0 || k.top_k > k.gating.size(1))
      return Support::no("top_k = " + std::to_string(k.top_k) +
                         " must be in 0 .. E = " + std::to_string(k.gating.size(1)));
    return Support::yes();
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const auto experts = static_cast<size_t>(k.gating.size(1));
    std::vector<double> scores(experts), keys(experts);
    for (int64_t t = 0; t < k.gating.size(0); ++t) {
      double high = -HUGE_VAL, total = 0;
      const auto x = [&](size_t e) { return double(k.gating(t, int64_t(e))); };
      for (size_t e = 0; e < experts; ++e) high = x(e) != x(e) || x(e) > high ? x(e) : high;
      for (size_t e = 0; e < experts; ++e) {
        scores[e] = k.scoring == 1 ? 1 / (1 + std::exp(-x(e))) : std::exp(x(e) - high);
        total += scores[e];
      }
      for (size_t e = 0; e < experts; ++e) {
        if (k.scoring == 0) scores[e] /= total;
        const double key = k.bias ? scores[e] + double(k.bias(int64_t(e))) : x(e);
        keys[e] = key > double(kernels::kLowestGate) ? key : double(kernels::kLowestGate);
      }
      double chosen = 0;
      for (int64_t i = 0; i < k.top_k; ++i) {
        const auto best = size_t(std::max_element(keys.begin(), keys.end()) - keys.begin());
        keys[best] = -HUGE_VAL;
        chosen += scores[best];
        k.weights(t, i) = float(scores[best]);
        k.ids(t, i) = int32_t(best);
      }
      for (int64_t i = 0; k.renormalize && i < k.top_k; ++i)
        k.weights(t, i) = float(scores[size_t(k.ids(t, i))] / chosen);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.gating.size(0)), experts = double(k.gating.size(1));
    return {.flops = n * experts * (4 + double(k.top_k)),
            .bytes = n * (experts * double(sizeof(T)) + 8 * double(k.top_k))};
  }

  static constexpr Case kEdgeCases[] = {
      {"no tokens", "N=0 E=8 top_k=2"},
      {"no experts", "N=3 E=0 top_k=0"},
      {"one expert", "N=3 E=1 top_k=1"},
      {"softmax", "N=5 E=45 top_k=6"},
      {"all of them", "N=4 E=7 top_k=7 renormalize=1"},
      {"sigmoid", "N=6 E=33 top_k=4 scoring=sigmoid"},
      {"bias", "N=6 E=100 top_k=8 scoring=sigmoid renormalize=1 +bias"},
      {"biased softmax", "N=3 E=300 top_k=8 +bias"},
      {"two of a lane", "N=5 E=64 top_k=32"},
      {"many chosen", "N=3 E=64 top_k=33"},
      {"many experts", "N=3 E=600 top_k=5 renormalize=1"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b/prefill", "N=4096 E=128 top_k=8 renormalize=1"},
      {"deepseek-v3/prefill", "N=4096 E=256 top_k=8 scoring=sigmoid renormalize=1 +bias"}};
};

}  // namespace tw::ops
