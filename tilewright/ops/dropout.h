#pragma once

#include <string>

#include "tilewright/kernels/dropout.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// Sets elements to zero with probability p and divides the others by 1 - p. Which ones follows
/// from the seed, at least 0, and their number in row-major order alone: one seed gives one mask,
/// on every target. `out` may alias `x`.
struct Dropout {
  static constexpr Schema kSchema{"dropout(x: T[...], p: f32 = 0.5, seed: i64 = 0) -> out: T[...]"};
  static constexpr Gradient kGradient{"dropout(x=out.grad, p, seed) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Dropout<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (!(k.p >= 0 && k.p <= 1))
      return Support::no("p = " + std::to_string(k.p) + " must be in 0 .. 1");
    if (k.seed < 0)
      return Support::no("seed = " + std::to_string(k.seed) + " must not be negative");
    return Support::yes();
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) {
        const uint32_t word = tile::philox_word(uint64_t(k.seed), uint64_t(r * k.out.cols + c));
        const bool is_kept = double(word) >= double(k.p) * 0x1p32;
        k.out(r, c) = T(is_kept ? double(k.x(r, c)) * (1 / (1 - double(k.p))) : 0);
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 20);
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0]"},
                                        {"one element", "x=[1] seed=7"},
                                        {"everything kept", "x=[70] p=0"},
                                        {"everything dropped", "x=[70] p=1"},
                                        {"two blocks", "x=[20001] p=0.1 seed=123456789012"},
                                        {"across groups", "x=[3,45] p=0.3 seed=3"}};
  static constexpr auto& kWorkloads = kUnaryWorkloads;
};

}  // namespace tw::ops
