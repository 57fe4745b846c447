#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/moe_topk_backward.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// The gradient of moe_topk's weights by the gating; ids are the experts that it chose, those of a
/// token different. A bias only selects, and has none. Throws kInvalidArgument for an id that is no
/// expert, or that a token has twice.
struct MoeTopkBackward {
  static constexpr Schema kSchema{
      "moe_topk_backward(grad: f32[N, K], gating: T[N, E], ids: i32[N, K], "
      "scoring: softmax|sigmoid = softmax, renormalize: bool = false) -> gating_grad: T[N, E]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = kernels::MoeTopkBackward<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.ids.size(1) <= k.gating.size(1)) return Support::yes();
    return Support::no("ids has K = " + std::to_string(k.ids.size(1)) +
                       ", more than the E = " + std::to_string(k.gating.size(1)) + " experts");
  }
  template <class T>
  static Support supports(const Kernel<T>& k) {
    for (int64_t t = 0; t < k.ids.size(0); ++t)
      for (int64_t i = 0; i < k.ids.size(1); ++i) {
        if (k.ids(t, i) < 0 || k.ids(t, i) >= k.gating.size(1))
          return Support::no("id " + std::to_string(k.ids(t, i)) + " is not one of the " +
                             std::to_string(k.gating.size(1)) + " experts");
        for (int64_t j = 0; j < i; ++j)
          if (k.ids(t, i) == k.ids(t, j))
            return Support::no("token " + std::to_string(t) + " has expert " +
                               std::to_string(k.ids(t, i)) + " twice");
      }
    return Support::yes();
  }

  /// By the quotient rule for each weight, one after the other.
  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t experts = k.gating.size(1), top_k = k.ids.size(1);
    for (int64_t t = 0; t < k.gating.size(0); ++t) {
      double high = -HUGE_VAL, total = 0, chosen = 0;
      const auto x = [&](int64_t e) { return double(k.gating(t, e)); };
      for (int64_t e = 0; e < experts; ++e) high = std::max(high, x(e));
      for (int64_t e = 0; e < experts; ++e) total += std::exp(x(e) - high);
      const auto score = [&](int64_t e) {
        return k.scoring == 1 ? 1 / (1 + std::exp(-x(e))) : std::exp(x(e) - high) / total;
      };
      const auto slope = [&](int64_t of, int64_t by) {  // of a score, by a gating
        const double same = of == by ? 1 : 0;
        return k.scoring == 1 ? same * score(of) * (1 - score(of)) : score(of) * (same - score(by));
      };
      for (int64_t i = 0; i < top_k; ++i) chosen += score(k.ids(t, i));
      for (int64_t e = 0; e < experts; ++e) {
        double sum = 0, chosen_slope = 0;
        for (int64_t i = 0; i < top_k; ++i) chosen_slope += slope(k.ids(t, i), e);
        for (int64_t i = 0; i < top_k; ++i) {
          const double s = score(k.ids(t, i)), d = slope(k.ids(t, i), e);
          sum += double(k.grad(t, i)) *
                 (k.renormalize ? (d * chosen - s * chosen_slope) / (chosen * chosen) : d);
        }
        k.gating_grad(t, e) = T(sum);
      }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.gating.size(0)), experts = double(k.gating.size(1));
    return {.flops = n * (8 * experts + 6 * double(k.ids.size(1))),
            .bytes = n * (2 * experts * double(sizeof(T)) + 8 * double(k.ids.size(1)))};
  }

  /// Different ones, at equal distances from where a token begins.
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "ids") return std::nullopt;
    const int64_t tokens = known["N"], count = known["K"], experts = known["E"];
    Tensor out = Tensor::empty(std::vector<int64_t>{tokens, count}, DType::kI32);
    const int64_t step = count > 0 && experts >= count ? experts / count : 0;
    const auto first = int64_t(seed % 1000);
    int64_t place = 0;
    for (int32_t& id : out.span<int32_t>()) {
      const int64_t t = place / count, i = place++ % count;
      id = int32_t(experts > 0 ? (first + t + i * step) % experts : 0);
    }
    return out;
  }

  static constexpr Case kEdgeCases[] = {
      {"no tokens", "N=0 E=8 K=2"},
      {"no experts", "N=3 E=0 K=0"},
      {"none chosen", "N=3 E=5 K=0 renormalize=1"},
      {"one expert", "N=3 E=1 K=1"},
      {"softmax", "N=5 E=45 K=6"},
      {"all of them", "N=4 E=7 K=7 renormalize=1"},
      {"sigmoid", "N=6 E=33 K=4 scoring=sigmoid"},
      {"sigmoids that sum to 1", "N=6 E=100 K=8 scoring=sigmoid renormalize=1"},
      {"many experts", "N=3 E=300 K=8 renormalize=1"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b/training", "N=4096 E=128 K=8 renormalize=1"}};
};

}  // namespace tw::ops
