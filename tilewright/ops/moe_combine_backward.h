#pragma once

#include <optional>
#include <vector>

#include "tilewright/kernels/moe_combine_backward.h"
#include "tilewright/ops/moe_combine.h"

namespace tw::ops {

/// Gradients of moe_combine by the rows of x and by the weights, in the order of the tokens.
struct MoeCombineBackward {
  static constexpr Schema kSchema{
      "moe_combine_backward(grad: T[N, C], x: T[S, C], positions: i32[N, K], "
      "weights: f32[N, K]?, scale: f32 = 1) -> x_grad: T[S, C], weights_grad: f32[N, K]?"};
  static constexpr bool kInPlace = false;  // the weights' gradient takes x after x's is written
  using Types = MoeCombine::Types;
  using ReferenceTypes = MoeCombine::ReferenceTypes;

  template <class T>
  using Kernel = kernels::MoeCombineBackward<T>;

  template <class T>
  static Support supports(const Kernel<T>& k) {
    return MoeCombine::supports(k);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t rows = k.x.size(0), cols = k.x.size(1);
    std::vector<double> sums(size_t(rows * cols), 0.0);
    for (int64_t t = 0; t < k.positions.size(0); ++t)
      for (int64_t i = 0; i < k.positions.size(1); ++i) {
        const int64_t row = k.positions(t, i);
        double product = 0;
        for (int64_t c = 0; row >= 0 && c < cols; ++c) {
          const double slope = double(k.scale) * double(k.grad(t, c));
          sums[size_t(row * cols + c)] += slope * (k.weights ? double(k.weights(t, i)) : 1.0);
          product += slope * double(k.x(row, c));
        }
        if (k.weights_grad) k.weights_grad(t, i) = float(product);
      }
    for (int64_t s = 0; s < rows; ++s)
      for (int64_t c = 0; c < cols; ++c) k.x_grad(s, c) = T(sums[size_t(s * cols + c)]);
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double cols = double(k.x.size(1)), places = double(k.places());
    const double passes = k.weights_grad ? 2 : 1;
    return {.flops = 2 * places * cols * passes,
            .bytes = double(sizeof(T)) * cols * (double(k.x.size(0)) + passes * places)};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    return MoeCombine::materialize(arg, known, combo, seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no tokens", "N=0 K=2 S=3 C=8 +weights_grad"},
      {"no rows", "N=3 K=2 S=0 C=8 +weights +weights_grad"},
      {"no columns", "N=3 K=2 S=4 C=0 +weights_grad"},
      {"none to add", "N=3 K=0 S=4 C=9 +weights"},
      {"one element", "N=1 K=1 S=1 C=1 +weights +weights_grad"},
      {"sums", "N=4 K=3 S=11 C=45"},
      {"several programs", "N=50 K=2 S=100 C=5 +weights"},
      {"many of one row", "N=60 K=2 S=2 C=70 +weights +weights_grad"},
      {"blocks of columns", "N=40 K=2 S=3 C=1100 +weights +weights_grad"},
      {"weighted", "N=9 K=4 S=20 C=300 scale=2.5 +weights +weights_grad"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b", "N=4096 K=8 S=32768 C=2048 +weights +weights_grad"}};
};

}  // namespace tw::ops
