#pragma once

#include <cmath>
#include <vector>

#include "tilewright/kernels/linear_attention_backward.h"
#include "tilewright/ops/linear_attention.h"

namespace tw::ops {

/// Gradients of linear_attention, from those of its output and of its final state.
struct LinearAttentionBackward : LinearAttentionFamily {
  static constexpr Schema kSchema{
      "linear_attention_backward(grad: T[B, L, Hv, Dv], q: T[B, L, H, D], k: T[B, L, H, D], "
      "v: T[B, L, Hv, Dv], g: U[B, L, Hv, D], beta: U[B, L, Hv]?, "
      "initial_state: U[B, Hv, D, Dv]?, final_grad: U[B, Hv, D, Dv]?, scale: f32 = 0) -> "
      "q_grad: T[B, L, H, D], k_grad: T[B, L, H, D], v_grad: T[B, L, Hv, Dv], "
      "g_grad: U[B, L, Hv, D], beta_grad: U[B, L, Hv]?, initial_grad: U[B, Hv, D, Dv]?"};

  template <class T, class U>
  using Kernel = kernels::LinearAttentionBackward<T, U>;

  template <class T, class U>
  static Support supports_shapes(const Kernel<T, U>& k) {
    return supports_heads(k.q.size(2), k.v.size(2));
  }

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    const int64_t steps = kernel.q.size(1), heads = kernel.q.size(2), dims = kernel.q.size(3);
    for (int64_t b = 0; b < kernel.q.size(0); ++b)
      for (int64_t head = 0; head < heads; ++head) {
        std::vector<double> q_grad(static_cast<size_t>(steps * dims), 0.0), k_grad = q_grad;
        for (int64_t h = head * kernel.group(); h < (head + 1) * kernel.group(); ++h)
          reference_head(kernel, b, head, h, q_grad, k_grad);
        for (int64_t t = 0; t < steps; ++t)
          for (int64_t d = 0; d < dims; ++d) {
            kernel.q_grad(b, t, head, d) = T(q_grad[size_t(t * dims + d)]);
            kernel.k_grad(b, t, head, d) = T(k_grad[size_t(t * dims + d)]);
          }
      }
  }

  template <class T, class U>
  static Cost cost(const Kernel<T, U>& k) {
    const double steps = double(k.v.size(0) * k.v.size(1) * k.v.size(2));
    const double dims = double(k.q.size(3)), columns = double(k.v.size(3));
    const double shared = double(k.q.size(2)) / std::max(1.0, double(k.v.size(2)));
    return {.flops = steps * dims * columns * (k.beta ? 30 : 24),
            .bytes = steps * (double(sizeof(T)) * (4 * dims * shared + 3 * columns) +
                              2 * double(sizeof(U)) * dims)};
  }

  static constexpr Case kEdgeCases[] = {
      {"no batch", "B=0 L=4 H=2 Hv=2 D=8 Dv=8"},
      {"no steps", "B=1 L=0 H=1 Hv=2 D=4 Dv=3 +initial_state +final_grad +initial_grad"},
      {"no key dimensions", "B=1 L=3 H=1 Hv=1 D=0 Dv=5 +beta +beta_grad scale=1"},
      {"no values", "B=1 L=3 H=1 Hv=1 D=5 Dv=0"},
      {"one element", "B=1 L=1 H=1 Hv=1 D=1 Dv=1 +beta +beta_grad +initial_state +initial_grad"},
      {"gates", "B=2 L=37 H=2 Hv=2 D=24 Dv=40 +final_grad"},
      {"gates, shared keys", "B=1 L=20 H=2 Hv=6 D=13 Dv=27 scale=0.5 +initial_state +initial_grad"},
      {"delta rule", "B=1 L=50 H=2 Hv=2 D=32 Dv=45 +beta +beta_grad"},
      {"delta rule, shared keys",
       "B=1 L=19 H=1 Hv=2 D=16 Dv=9 +beta +beta_grad +initial_state +final_grad +initial_grad"},
      {"two stretches, two blocks", "B=1 L=19 H=1 Hv=1 D=65 Dv=70 +beta +beta_grad +final_grad"},
      {"gates, 130 rows", "B=1 L=9 H=1 Hv=2 D=130 Dv=18 +final_grad +initial_grad"},
      {"delta rule, 130 rows", "B=1 L=5 H=1 Hv=1 D=130 Dv=36 +beta +beta_grad"},
      {"delta rule, 260 rows", "B=1 L=3 H=1 Hv=1 D=260 Dv=4 +beta +beta_grad +initial_state"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-next/512", "B=1 L=512 H=16 Hv=32 D=128 Dv=128 +beta +beta_grad"},
      {"gla-1.3b/512", "B=1 L=512 H=4 Hv=4 D=256 Dv=512"}};

 private:
  /// S(t): the state before step t, [D, Dv].
  template <class T, class U>
  static std::vector<std::vector<double>> states(const Kernel<T, U>& kernel, int64_t b,
                                                 int64_t head, int64_t h,
                                                 std::vector<double>& errors) {
    const int64_t dims = kernel.q.size(3), columns = kernel.v.size(3), steps = kernel.q.size(1);
    std::vector<std::vector<double>> all;
    std::vector<double> s(static_cast<size_t>(dims * columns), 0.0);
    for (int64_t i = 0; i < dims * columns && kernel.initial_state; ++i)
      s[size_t(i)] = double(kernel.initial_state(b, h, i / columns, i % columns));
    for (int64_t t = 0; t < steps; ++t) {
      all.push_back(s);
      for (int64_t c = 0; c < columns; ++c) {
        double error = double(kernel.v(b, t, h, c));
        for (int64_t d = 0; d < dims; ++d) {
          s[size_t(d * columns + c)] *= std::exp(double(kernel.g(b, t, h, d)));
          if (kernel.beta) error -= s[size_t(d * columns + c)] * double(kernel.k(b, t, head, d));
        }
        errors[size_t(t * columns + c)] = error;
        const double change = error * (kernel.beta ? double(kernel.beta(b, t, h)) : 1.0);
        for (int64_t d = 0; d < dims; ++d)
          s[size_t(d * columns + c)] += double(kernel.k(b, t, head, d)) * change;
      }
    }
    return all;
  }

  template <class T, class U>
  static void reference_head(const Kernel<T, U>& kernel, int64_t b, int64_t head, int64_t h,
                             std::vector<double>& q_grad, std::vector<double>& k_grad) {
    const int64_t dims = kernel.q.size(3), columns = kernel.v.size(3), steps = kernel.q.size(1);
    const double scale = kernel.scale != 0 ? double(kernel.scale) : 1 / std::sqrt(double(dims));
    std::vector<double> errors(static_cast<size_t>(steps * columns));
    const std::vector<std::vector<double>> past = states(kernel, b, head, h, errors);
    std::vector<double> slopes(static_cast<size_t>(dims * columns), 0.0);
    for (int64_t i = 0; i < dims * columns && kernel.final_grad; ++i)
      slopes[size_t(i)] = double(kernel.final_grad(b, h, i / columns, i % columns));
    for (int64_t t = steps - 1; t >= 0; --t) {
      const double beta = kernel.beta ? double(kernel.beta(b, t, h)) : 1.0;
      std::vector<double> g_grad(static_cast<size_t>(dims), 0.0);
      double beta_grad = 0;
      for (int64_t c = 0; c < columns; ++c) {
        const double from = double(kernel.grad(b, t, h, c)),
                     error = errors[size_t(t * columns + c)];
        double change_grad = 0;
        for (int64_t d = 0; d < dims; ++d) {
          double& slope = slopes[size_t(d * columns + c)];
          slope += scale * double(kernel.q(b, t, head, d)) * from;
          change_grad += slope * double(kernel.k(b, t, head, d));
        }
        beta_grad += change_grad * error;
        kernel.v_grad(b, t, h, c) = T(beta * change_grad);
        const double held_grad = kernel.beta ? -beta * change_grad : 0.0;
        for (int64_t d = 0; d < dims; ++d) {
          const double k = double(kernel.k(b, t, head, d));
          const double decay = std::exp(double(kernel.g(b, t, h, d)));
          const double kept = decay * past[size_t(t)][size_t(d * columns + c)];
          double& slope = slopes[size_t(d * columns + c)];
          q_grad[size_t(t * dims + d)] += scale * (kept + k * beta * error) * from;
          k_grad[size_t(t * dims + d)] += slope * beta * error + kept * held_grad;
          slope += k * held_grad;
          g_grad[size_t(d)] += slope * kept;
          slope *= decay;
        }
      }
      for (int64_t d = 0; d < dims; ++d) kernel.g_grad(b, t, h, d) = U(g_grad[size_t(d)]);
      if (kernel.beta_grad) kernel.beta_grad(b, t, h) = U(beta_grad);
    }
    for (int64_t i = 0; i < dims * columns && kernel.initial_grad; ++i)
      kernel.initial_grad(b, h, i / columns, i % columns) = U(slopes[size_t(i)]);
  }
};

}  // namespace tw::ops
