#pragma once

#include <cmath>

#include "tilewright/kernels/softmax.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// exp(x) / sum(exp(x)) along one dimension. A row of -inf alone, and a row with +inf or NaN, gives
/// NaN throughout. `out` may alias `x`.
struct Softmax : AlongDim<> {
  static constexpr Schema kSchema{"softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C]"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16};
  static constexpr Gradient kGradient{"softmax_backward(grad=out.grad, output=out, dim) -> x.grad"};
  using Types = FloatCombos;

  template <class T>
  using Kernel = kernels::Softmax<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double high = -INFINITY, sum = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) high = std::fmax(high, double(k.x(r, c)));
      for (int64_t c = 0; c < k.x.cols; ++c) sum += std::exp(double(k.x(r, c)) - high);
      for (int64_t c = 0; c < k.x.cols; ++c)
        k.out(r, c) = T(std::exp(double(k.x(r, c)) - high) / sum);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 16);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=1 C=1"},
                                        {"partial span only", "*=2 C=5"},
                                        {"spans and a tail", "*=2x3 C=45"},
                                        {"three blocks", "*=2 C=9001"},
                                        {"few short rows", "*=3 C=520"},
                                        {"few long rows", "*=2 C=4104"},
                                        {"many rows", "*=2x130 C=520"},
                                        {"many rows of several warps", "*=2x130 C=2056"},
                                        {"long rows", "*=2 C=16392"},
                                        {"long rows of four bytes", "*=3 C=8200"},
                                        {"rows in groups", "*=100 C=75"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"middle dimension", "*=2x37 C=5 dim=-2"},
                                        {"rows that columns share", "*=2x260 C=300 dim=1"},
                                        {"columns that lanes share", "*=70x33 C=256 dim=1"}};
  static constexpr Case kWorkloads[] = {{"attention scores", "*=32x512 C=512"},
                                        {"llama-3.1-8b/vocabulary", "*=1 C=128256"},
                                        {"llama-3.1-8b/vocabulary, batch-16", "*=16 C=128256"},
                                        {"llama-3.1-8b/vocabulary, batch-32", "*=32 C=128256"},
                                        {"llama-3.1-8b/vocabulary, batch-64", "*=64 C=128256"},
                                        {"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
