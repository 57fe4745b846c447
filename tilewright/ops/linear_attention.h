#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/linear_attention.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

/// What linear attention, its gradient and its transform share.
struct LinearAttentionFamily {
  using Types = Combos<Combo<float, float>, Combo<f16, float>, Combo<bf16, float>>;
  using ReferenceTypes = Combos<Combo<double, double>>;

  static Support supports_chunks(int64_t chunk_size) {
    if (chunk_size > 0) return Support::yes();
    return Support::no("chunk_size is " + std::to_string(chunk_size) + ", but must be positive");
  }
  static Support supports_heads(int64_t heads, int64_t value_heads) {
    if (heads > 0 ? value_heads % heads == 0 : value_heads == 0) return Support::yes();
    return Support::no("v has " + std::to_string(value_heads) +
                       " heads, which is no multiple of the " + std::to_string(heads) + " of q");
  }

  /// Gates that keep most of a state, and corrections that do not overshoot.
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    const bool is_gate = arg == "g";
    if (!is_gate && arg != "beta") return std::nullopt;
    std::vector<int64_t> sizes{known["B"], known["L"], known["Hv"]};
    if (is_gate) sizes.push_back(known["D"]);
    const double most = is_gate ? -0.3 : 1.0 / (1.0 + double(known["D"]));
    Tensor out = Tensor::empty(sizes, combo[1]);
    for (int64_t i = 0, n = out.ref().count(); i < n; ++i) {
      const double value = most * double(next_random(seed) >> 40) * 0x1p-24;
      if (combo[1] == DType::kF64)
        out.span<double>()[size_t(i)] = value;
      else
        out.span<float>()[size_t(i)] = static_cast<float>(value);
    }
    return out;
  }
};

/// Linear attention over time with a log gate per key dimension, and with the delta rule where
/// there is a beta: S = exp(g) S + k d^T with d = v, or beta (v - (exp(g) S)^T k); out = scale S^T
/// q. A scale of 0 means 1 / sqrt(D). Several heads of v may share one of q and k. `states` are S
/// before every chunk_size steps, and at the end.
struct LinearAttention : LinearAttentionFamily {
  static constexpr Schema kSchema{
      "linear_attention(q: T[B, L, H, D], k: T[B, L, H, D], v: T[B, L, Hv, Dv], "
      "g: U[B, L, Hv, D], beta: U[B, L, Hv]?, initial_state: U[B, Hv, D, Dv]?, scale: f32 = 0, "
      "chunk_size: i64 = 64) -> out: T[B, L, Hv, Dv], final_state: U[B, Hv, D, Dv], "
      "states: U[B, Hv, L/chunk_size+1, D, Dv]?"};
  static constexpr Gradient kGradient{
      "linear_attention_backward(grad=out.grad, q, k, v, g, beta, initial_state, "
      "final_grad=final_state.grad, scale) -> q.grad, k.grad, v.grad, g.grad, beta.grad, "
      "initial_state.grad"};

  template <class T, class U>
  using Kernel = kernels::LinearAttention<T, U>;

  template <class T, class U>
  static Support supports_shapes(const Kernel<T, U>& k) {
    if (Support s = supports_chunks(k.chunk_size); !s) return s;
    return supports_heads(k.q.size(2), k.v.size(2));
  }

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    for (int64_t b = 0; b < kernel.v.size(0); ++b)
      for (int64_t h = 0; h < kernel.v.size(2); ++h)
        for (int64_t c = 0; c < kernel.v.size(3); ++c) reference_column(kernel, b, h, c);
  }

  template <class T, class U>
  static Cost cost(const Kernel<T, U>& k) {
    const double steps = double(k.v.size(0) * k.v.size(1) * k.v.size(2));
    const double dims = double(k.q.size(3)), columns = double(k.v.size(3));
    const double shared = double(k.q.size(2)) / std::max(1.0, double(k.v.size(2)));
    return {.flops = steps * dims * columns * (k.beta ? 7 : 5),
            .bytes = steps * (double(sizeof(T)) * (2 * dims * shared + 2 * columns) +
                              double(sizeof(U)) * dims)};
  }

  static constexpr Case kEdgeCases[] = {
      {"no batch", "B=0 L=4 H=2 Hv=2 D=8 Dv=8"},
      {"no steps", "B=1 L=0 H=1 Hv=2 D=4 Dv=3 +initial_state +states"},
      {"no key dimensions", "B=1 L=3 H=1 Hv=1 D=0 Dv=5 +beta scale=1"},
      {"no values", "B=1 L=3 H=1 Hv=1 D=5 Dv=0"},
      {"one element", "B=1 L=1 H=1 Hv=1 D=1 Dv=1 +beta +initial_state"},
      {"gates", "B=2 L=37 H=2 Hv=2 D=24 Dv=40"},
      {"gates, state, shared keys", "B=1 L=70 H=2 Hv=6 D=13 Dv=27 scale=0.5 +initial_state"},
      {"delta rule", "B=2 L=65 H=2 Hv=2 D=32 Dv=77 +beta +states"},
      {"delta rule, one step", "B=3 L=1 H=2 Hv=4 D=64 Dv=64 +beta +initial_state +states"},
      {"delta rule, chunks of 16", "B=1 L=41 H=1 Hv=2 D=16 Dv=16 chunk_size=16 +beta +states"},
      {"gates, 65 rows", "B=1 L=19 H=1 Hv=1 D=65 Dv=36 +initial_state"},
      {"gates, 130 rows", "B=1 L=11 H=1 Hv=1 D=130 Dv=18"},
      {"gates, 260 rows", "B=1 L=5 H=1 Hv=1 D=260 Dv=10 +states chunk_size=2"},
      {"delta rule, 128 rows", "B=1 L=21 H=1 Hv=1 D=128 Dv=33 +beta +states chunk_size=3"},
      {"delta rule, 200 rows", "B=1 L=9 H=1 Hv=1 D=200 Dv=20 +beta"},
      {"delta rule, 512 rows", "B=1 L=5 H=1 Hv=1 D=512 Dv=9 +beta +initial_state"},
      {"delta rule, 520 rows", "B=1 L=3 H=1 Hv=1 D=520 Dv=4 +beta +initial_state"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-next/prefill", "B=1 L=1024 H=16 Hv=32 D=128 Dv=128 +beta"},
      {"qwen3-next/decode", "B=8 L=1 H=16 Hv=32 D=128 Dv=128 +beta +initial_state"},
      {"gla-1.3b/prefill", "B=1 L=2048 H=4 Hv=4 D=256 Dv=512"},
      {"mamba2-1.3b/prefill", "B=1 L=1024 H=1 Hv=64 D=128 Dv=64 scale=1"}};

 private:
  template <class T, class U>
  static void reference_column(const Kernel<T, U>& kernel, int64_t b, int64_t h, int64_t c) {
    const int64_t dims = kernel.q.size(3), steps = kernel.v.size(1);
    const int64_t head = h / (kernel.v.size(2) / kernel.q.size(2));
    const double scale = kernel.scale != 0 ? double(kernel.scale) : 1 / std::sqrt(double(dims));
    std::vector<double> s(static_cast<size_t>(dims));
    for (int64_t d = 0; d < dims && kernel.initial_state; ++d)
      s[size_t(d)] = double(kernel.initial_state(b, h, d, c));
    const auto keep = [&](int64_t n) {
      for (int64_t d = 0; d < dims && kernel.states; ++d)
        kernel.states(b, h, n, d, c) = U(s[size_t(d)]);
    };
    for (int64_t t = 0; t < steps; ++t) {
      if (t % kernel.chunk_size == 0) keep(t / kernel.chunk_size);
      double change = double(kernel.v(b, t, h, c)), sum = 0;
      for (int64_t d = 0; d < dims; ++d) {
        s[size_t(d)] *= std::exp(double(kernel.g(b, t, h, d)));
        if (kernel.beta) change -= s[size_t(d)] * double(kernel.k(b, t, head, d));
      }
      if (kernel.beta) change *= double(kernel.beta(b, t, h));
      for (int64_t d = 0; d < dims; ++d) {
        s[size_t(d)] += double(kernel.k(b, t, head, d)) * change;
        sum += s[size_t(d)] * double(kernel.q(b, t, head, d));
      }
      kernel.out(b, t, h, c) = T(dims > 0 ? scale * sum : 0.0);  // not 0 times infinity
    }
    keep(kernel.chunks());
    for (int64_t d = 0; d < dims; ++d) kernel.final_state(b, h, d, c) = U(s[size_t(d)]);
  }
};

}  // namespace tw::ops
