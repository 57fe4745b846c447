#pragma once

#include <cmath>
#include <vector>

#include "tilewright/kernels/sinkhorn.h"
#include "tilewright/ops/core/norm.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// exp(x), its rows and columns divided by their sums in turn, so many times each: nearly a doubly
/// stochastic matrix. eps is added to the sums.
struct Sinkhorn {
  static constexpr Schema kSchema{
      "sinkhorn(x: T[B, M, N], iterations: i64 = 20, eps: f32 = 0) -> out: T[B, M, N]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = kernels::Sinkhorn<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.iterations < 0)
      return Support::no("iterations = " + std::to_string(k.iterations) + " must be at least 0");
    return supports_eps(double(k.eps));
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t rows = k.x.size(1), cols = k.x.size(2);
    std::vector<double> m(static_cast<size_t>(rows * cols));
    const auto at = [&](int64_t r, int64_t c) -> double& { return m[size_t(r * cols + c)]; };
    for (int64_t b = 0; b < k.x.size(0); ++b) {
      for (int64_t r = 0; r < rows; ++r) {
        double high = -HUGE_VAL;
        for (int64_t c = 0; c < cols; ++c) high = std::fmax(high, double(k.x(b, r, c)));
        for (int64_t c = 0; c < cols; ++c) at(r, c) = std::exp(double(k.x(b, r, c)) - high);
      }
      for (int64_t i = 0; i < k.iterations; ++i) {
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0;
          for (int64_t c = 0; c < cols; ++c) sum += at(r, c);
          for (int64_t c = 0; c < cols; ++c) at(r, c) /= sum + double(k.eps);
        }
        for (int64_t c = 0; c < cols; ++c) {
          double sum = 0;
          for (int64_t r = 0; r < rows; ++r) sum += at(r, c);
          for (int64_t r = 0; r < rows; ++r) at(r, c) /= sum + double(k.eps);
        }
      }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) k.out(b, r, c) = T(at(r, c));
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.x.size(0)) * double(k.x.size(1)) * double(k.x.size(2));
    return {.flops = n * 4 * double(k.iterations), .bytes = 2 * n * double(sizeof(T))};
  }

  static constexpr Case kEdgeCases[] = {
      {"no matrix", "B=0 M=4 N=4"},
      {"no rows", "B=2 M=0 N=4"},
      {"one element", "B=2 M=1 N=1"},
      {"residual streams", "B=9 M=4 N=4"},
      {"none", "B=2 M=3 N=5 iterations=0"},
      {"eps", "B=3 M=5 N=7 iterations=3 eps=0.02"},
      {"8 streams", "B=5 M=8 N=7"},
      {"a warp of columns", "B=3 M=31 N=30"},
      {"a block", "B=2 M=70 N=40"},
      {"one column", "B=2 M=90 N=1"},
      {"more columns than threads", "B=1 M=3 N=700 iterations=2"}};
  static constexpr Case kWorkloads[] = {{"4 streams", "B=4096 M=4 N=4"},
                                        {"8 streams", "B=4096 M=8 N=8"}};
};

}  // namespace tw::ops
