#pragma once

#include "tilewright/kernels/type_as.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// x in the floating type of other, rounded to the nearest (ties to even); what exceeds its range
/// becomes infinite, NaN stays NaN.
struct TypeAs {
  static constexpr Schema kSchema{"type_as(x: T[...], other: U[N]) -> out: U[...]"};
  using Types = Combos<Combo<float, f16>, Combo<float, bf16>, Combo<f16, float>, Combo<f16, bf16>,
                       Combo<bf16, float>, Combo<bf16, f16>>;

  template <class T, class U>
  using Kernel = kernels::TypeAs<T, U>;

  template <class T, class U>
  static void reference(const kernels::TypeAs<T, U>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) k.out(r, c) = U(double(k.x(r, c)));
  }

  template <class T, class U>
  static Cost cost(const kernels::TypeAs<T, U>& k) {
    const double n = double(k.out.rows) * double(k.out.cols);
    return {.flops = 0, .bytes = n * double(sizeof(T) + sizeof(U))};
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0] N=1"},
                                        {"one element", "x=[1] N=1"},
                                        {"partial span", "x=[5] N=0"},
                                        {"spans and tail", "x=[3,45] N=1"},
                                        {"two blocks", "x=[20001] N=1"},
                                        {"rank 4", "x=[2,3,4,5] N=1"},
                                        {"blocks of more spans", "x=[1050008] N=1"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/mlp", "x=[2048,14336] N=1"},
                                        {"64 MiB", "x=[4096,4096] N=1"}};
};

}  // namespace tw::ops
