#pragma once

#include <cmath>
#include <numbers>
#include <vector>

#include "tilewright/kernels/fft.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// The discrete Fourier transform along the complex numbers of each row, the real and imaginary
/// part of a number side by side; or the inverse, not divided by the length. Any length; quickest
/// where its prime factors are small.
struct Fft {
  static constexpr Schema kSchema{"fft(x: T[B, N, 2], inverse: bool = false) -> out: T[B, N, 2]"};
  static constexpr Gradient kGradient{"fft(x=out.grad, inverse=!inverse) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<double>>;

  template <class T>
  using Kernel = kernels::Fft<T>;

  template <class T>
  static void reference(const Kernel<T>& kernel) {
    const int64_t n = kernel.x.size(1);
    std::vector<double> roots;
    for (int64_t i = 0; i < n; ++i) {
      const double turn = kernel.inverse ? 2 * std::numbers::pi : -2 * std::numbers::pi;
      const double angle = turn * double(i) / double(n);
      roots.insert(roots.end(), {std::cos(angle), std::sin(angle)});
    }
    for (int64_t b = 0; b < kernel.x.size(0); ++b)
      for (int64_t k = 0; k < n; ++k) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; ++j) {
          const double* const w = roots.data() + 2 * (j * k % n);
          const double a = double(kernel.x(b, j, 0)), c = double(kernel.x(b, j, 1));
          re += a * w[0] - c * w[1];
          im += a * w[1] + c * w[0];
        }
        kernel.out(b, k, 0) = T(re);
        kernel.out(b, k, 1) = T(im);
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double rows = double(k.x.size(0)), n = double(k.x.size(1));
    return {.flops = n > 0 ? 5 * rows * n * std::log2(n) : 0,
            .bytes = 4 * rows * n * double(sizeof(T))};
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "B=0 N=8"},
                                        {"no elements", "B=3 N=0"},
                                        {"one element", "B=2 N=1"},
                                        {"one pass", "B=3 N=16"},
                                        {"a power of 4", "B=3 N=256"},
                                        {"a power of 2", "B=2 N=512"},
                                        {"small factors", "B=2 N=360"},
                                        {"equal factors", "B=2 N=1000"},
                                        {"factors 7, 8 and 9", "B=2 N=504"},
                                        {"factors 11 and 13", "B=2 N=429"},
                                        {"a square of a prime", "B=2 N=49"},
                                        {"a prime", "B=1 N=211"},
                                        {"a prime after 4", "B=1 N=68"},
                                        {"short rows", "B=800 N=12"},
                                        {"short rows of a prime", "B=800 N=17"},
                                        {"cut in two", "B=2 N=8250"},
                                        {"a prime, cut in two", "B=2 N=4099"},
                                        {"the inverse", "B=2 N=90 inverse=1"},
                                        {"the inverse of a prime", "B=2 N=37 inverse=1"},
                                        {"the inverse, cut in two", "B=1 N=8250 inverse=1"}};
  static constexpr Case kWorkloads[] = {{"4096", "B=64 N=4096"}, {"1 s of audio", "B=8 N=16000"}};
};

}  // namespace tw::ops
