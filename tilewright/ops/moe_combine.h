#pragma once

#include <optional>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/moe_combine.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/numbered.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// The weighted sum of the rows of x at each token's positions, times scale; a position of -1 adds
/// nothing. Sums are float32.
struct MoeCombine {
  static constexpr Schema kSchema{
      "moe_combine(x: T[S, C], positions: i32[N, K], weights: f32[N, K]?, scale: f32 = 1) -> "
      "out: T[N, C]"};
  static constexpr Gradient kGradient{
      "moe_combine_backward(grad=out.grad, x, positions, weights, scale) -> x.grad, weights.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::MoeCombine<T>;

  template <class K>
  static Support supports(const K& k) {
    return supports_numbers("position", k.positions, k.x.size(0), "rows of x");
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t t = 0; t < k.out.size(0); ++t)
      for (int64_t c = 0; c < k.out.size(1); ++c) {
        double sum = 0;
        for (int64_t i = 0; i < k.positions.size(1); ++i)
          if (k.positions(t, i) >= 0)
            sum += (k.weights ? double(k.weights(t, i)) : 1) * double(k.x(k.positions(t, i), c));
        k.out(t, c) = T(sum * double(k.scale));
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.out.size(0)) * double(k.out.size(1)),
                 top_k = double(k.positions.size(1));
    return {.flops = 2 * n * top_k, .bytes = double(sizeof(T)) * n * (top_k + 1)};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "positions") return std::nullopt;
    return random_numbers({known["N"], known["K"]}, known["S"], seed);
  }

  static constexpr Case kEdgeCases[] = {{"no tokens", "N=0 K=2 S=3 C=8"},
                                        {"no rows", "N=3 K=2 S=0 C=8 +weights"},
                                        {"no columns", "N=3 K=2 S=4 C=0"},
                                        {"none to add", "N=3 K=0 S=4 C=9 +weights"},
                                        {"one element", "N=1 K=1 S=1 C=1 +weights"},
                                        {"sums", "N=4 K=3 S=11 C=45"},
                                        {"weighted", "N=9 K=4 S=20 C=300 scale=2.5 +weights"}};
  static constexpr Case kWorkloads[] = {{"qwen3-30b-a3b", "N=4096 K=8 S=32768 C=2048 +weights"},
                                        {"decode", "N=1 K=8 S=8 C=7168 +weights"}};
};

}  // namespace tw::ops
