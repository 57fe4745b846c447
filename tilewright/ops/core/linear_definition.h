// The definition of a linear layer, shared by the operators that differ in how the weight is
// stored.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "tilewright/core/view.h"
#include "tilewright/kernels/activation.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

inline double activate(kernels::Activation activation, double x) {
  using kernels::Activation;
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x * 0.70710678118654752);
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

/// out = activation(x wᵀ + bias) + residual in float64; weight(n, k) gives w as double. Kernel: the
/// aggregate of a linear operator, which may have scales of the product.
template <class Kernel, class Weight>
void linear_reference(const Kernel& kernel, Weight&& weight) {
  for (int64_t m = 0; m < kernel.out.rows; ++m) {
    const auto x = kernel.x.row(m);
    for (int64_t n = 0; n < kernel.out.cols; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < kernel.x.cols; ++k) sum += static_cast<double>(x(k)) * weight(n, k);
      if constexpr (requires { kernel.row_scale; }) {
        if (kernel.row_scale) sum *= static_cast<double>(kernel.row_scale(m, 0));
        if (kernel.column_scale) sum *= static_cast<double>(kernel.column_scale(n));
      }
      if (kernel.bias) sum += static_cast<double>(kernel.bias(n));
      sum = activate(static_cast<kernels::Activation>(kernel.activation), sum);
      if (kernel.residual) sum += static_cast<double>(kernel.residual(m, n));
      kernel.out(m, n) = std::remove_reference_t<decltype(kernel.out(m, n))>(sum);
    }
  }
}

/// Work of a linear layer whose weight takes `weight_bytes`, elements of `size` bytes.
template <class Kernel>
Cost linear_cost(const Kernel& kernel, double weight_bytes, double size) {
  const double m = static_cast<double>(kernel.out.rows), n = static_cast<double>(kernel.out.cols);
  const double k = static_cast<double>(kernel.x.cols);
  return {.flops = 2 * m * n * k,
          .bytes = weight_bytes + size * (m * k + m * n * (kernel.residual ? 2 : 1))};
}

// One case per branch of kernels/gemm_cpu.h: small, odd, and large enough to be cut in every way.
inline constexpr Case kLinearEdgeCases[] = {
    {"no rows", "*=0 K=8 N=8"},
    {"no features", "*=3 K=8 N=0"},
    {"empty sums", "*=2 K=0 N=40 +bias"},
    {"one product", "*=1 K=1 N=1"},
    {"small", "*=2x3 K=4 N=5 +bias +residual"},
    {"one row, panels and a tail", "*=1 K=129 N=101 +bias activation=gelu"},
    {"one row, many tasks", "*=1 K=600 N=1100 +residual"},
    {"two rows, odd k", "*=2 K=67 N=33 activation=relu"},
    {"ragged tile", "*=5 K=70 N=45 +bias +residual activation=silu"},
    {"a tile and a bit", "*=2x2x4 K=515 N=65 +bias activation=gelu_tanh"},
    {"narrow", "*=150 K=90 N=3 +bias"},
    {"several blocks of k", "*=23 K=1030 N=70 +residual"},
    {"blocks of rows", "*=530 K=180 N=40 +bias"},
    {"a packed once for all", "*=210 K=700 N=260"},
    {"few tiles, many k", "*=35 K=7003 N=66 +bias +residual activation=silu"}};
/// One list after the other.
template <size_t kFirst, size_t kSecond>
constexpr std::array<Case, kFirst + kSecond> joined(const Case (&first)[kFirst],
                                                    const Case (&second)[kSecond]) {
  std::array<Case, kFirst + kSecond> out{};
  std::copy(first, first + kFirst, out.begin());
  std::copy(second, second + kSecond, out.begin() + kFirst);
  return out;
}

// Of scales of the product, which linear has.
inline constexpr Case kLinearScaleCases[] = {
    {"scales of no sums", "*=2 K=0 N=40 +bias +row_scale +column_scale"},
    {"a scale of rows", "*=2x3 K=4 N=5 +bias +row_scale"},
    {"a scale of columns", "*=5 K=70 N=45 +column_scale activation=silu"},
    {"one row with scales", "*=1 K=600 N=1100 +row_scale +column_scale activation=gelu"},
    {"scales and all else",
     "*=45 K=67 N=137 +bias +residual +row_scale +column_scale activation=gelu_tanh"},
    {"scales of parts of k", "*=35 K=7003 N=66 +residual +row_scale +column_scale"},
    {"scales of large tiles", "*=600 K=72 N=1032 +bias +row_scale +column_scale activation=relu"}};
inline constexpr Case kLinearWorkloads[] = {
    {"smollm2-135m/decode", "*=1 K=576 N=1536"},
    {"smollm2-135m/prefill", "*=128 K=576 N=1536"},
    {"bert-base/ffn", "*=128 K=768 N=3072 +bias activation=gelu"},
    {"llama-3.1-8b/decode", "*=1 K=4096 N=4096"},
    {"llama-3.1-8b/batch-8", "*=8 K=4096 N=4096"},
    {"llama-3.1-8b/batch-16", "*=16 K=4096 N=4096"},
    {"llama-3.1-8b/batch-32", "*=32 K=4096 N=4096"},
    {"llama-3.1-8b/batch-64", "*=64 K=4096 N=4096"},
    {"llama-3.1-8b/prefill", "*=128 K=4096 N=4096"},
    {"cube-512", "*=512 K=512 N=512"},
    {"cube-1024", "*=1024 K=1024 N=1024"},
    {"cube-2048", "*=2048 K=2048 N=2048"}};

}  // namespace tw::ops
