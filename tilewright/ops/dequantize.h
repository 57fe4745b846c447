#pragma once

#include "tilewright/kernels/dequantize.h"
#include "tilewright/ops/core/blocks.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Blocks of a matrix, block_m rows by block_n columns, times their scale.
struct Dequantize {
  static constexpr Schema kSchema{
      "dequantize(x: Q[M, N], scale: f32[A, B], block_m: i64 = 128, block_n: i64 = 128) -> "
      "out: f32[M, N]"};
  using Types = Combos<Combo<f8_e4m3fn>, Combo<f8_e5m2>, Combo<int8_t>>;

  template <class Q>
  using Kernel = kernels::Dequantize<Q>;

  template <class Q>
  static Support supports_shapes(const Kernel<Q>& k) {
    if (Support s = supports_blocks("scale", "M", k.x.size(0), k.block_m, k.scale.size(0)); !s)
      return s;
    return supports_blocks("scale", "N", k.x.size(1), k.block_n, k.scale.size(1));
  }

  template <class Q>
  static void reference(const Kernel<Q>& k) {
    for (int64_t m = 0; m < k.x.size(0); ++m)
      for (int64_t n = 0; n < k.x.size(1); ++n)
        k.out(m, n) = float(double(k.x(m, n)) * double(k.scale(m / k.block_m, n / k.block_n)));
  }

  template <class Q>
  static Cost cost(const Kernel<Q>& k) {
    const double n = double(k.x.size(0)) * double(k.x.size(1));
    return {.flops = n, .bytes = 5 * n};
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "M=0 N=8 A=0 B=1"},
      {"no columns", "M=3 N=0 A=1 B=0"},
      {"one element", "M=1 N=1 A=1 B=1"},
      {"blocks of 128", "M=130 N=300 A=2 B=3"},
      {"a scale for each group", "M=3 N=45 A=3 B=5 block_m=1 block_n=9"},
      {"one scale", "M=5 N=70 A=1 B=1 block_m=5 block_n=70"}};
  static constexpr Case kWorkloads[] = {{"deepseek-v3/down", "M=7168 N=2048 A=56 B=16"},
                                        {"small", "M=1024 N=1024 A=8 B=8"}};
};

}  // namespace tw::ops
