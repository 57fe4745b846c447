#pragma once

#include <cmath>

#include "tilewright/kernels/swiglu.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// silu(gate) * up in one pass. `out` may alias an argument.
struct Swiglu {
  static constexpr Schema kSchema{"swiglu(gate: T[...], up: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{
      "swiglu_backward(grad=out.grad, gate, up) -> gate.grad, up.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Swiglu<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) {
        const double gate = double(k.gate(r, c));
        k.out(r, c) = T(gate / (1 + std::exp(-gate)) * double(k.up(r, c)));
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 3, 17);
  }

  static constexpr Case kEdgeCases[] = {{"empty", "gate=[3,0] up=[3,0]"},
                                        {"two blocks", "gate=[20001] up=[20001]"},
                                        {"column broadcast", "gate=[7,33] up=[7,1]"},
                                        {"spans and tail", "gate=[3,45] up=[3,45]"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/prefill", "gate=[512,14336] up=[512,14336]"},
                                        {"llama-3.1-8b/decode", "gate=[1,14336] up=[1,14336]"},
                                        {"llama-3.1-8b/batch-16", "gate=[16,14336] up=[16,14336]"},
                                        {"llama-3.1-8b/batch-32", "gate=[32,14336] up=[32,14336]"},
                                        {"llama-3.1-8b/batch-64", "gate=[64,14336] up=[64,14336]"}};
};

}  // namespace tw::ops
