#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "tilewright/kernels/attention_backward.h"
#include "tilewright/ops/attention.h"

namespace tw::ops {

/// Gradients of attention without sinks and scales of keys, from its output and lse. Keys that
/// kv_lens leaves out have gradient 0.
struct AttentionBackward {
  static constexpr Schema kSchema{
      "attention_backward(grad: T[B, S, Hq, Dv], q: T[B, S, Hq, D], k: T[B, L, H, D], "
      "v: T[B, L, H, Dv], output: T[B, S, Hq, Dv], lse: f32[B, Hq, S], kv_lens: i32[B]?, "
      "scale: f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, "
      "softcap: f32 = 0) -> "
      "q_grad: T[B, S, Hq, D], k_grad: T[B, L, H, D], v_grad: T[B, L, H, Dv]"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  /// Weights are computed again, with the errors that AttentionFamily tells of.
  static constexpr double kToleranceScale = AttentionFamily::kToleranceScale;
  /// They take weights and slopes in 16 bits: a gradient has the rounding of one product more.
  static constexpr double kGpuToleranceScale = 1.5 * kToleranceScale;
  static constexpr bool kInPlace = false;  // keys are read by more than one program
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::AttentionBackward<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& kernel) {
    return AttentionFamily::supports_shape(kernel.shape(), kernel.options());
  }
  template <class T>
  static Support supports(const Kernel<T>& kernel) {
    return AttentionFamily::supports_lens("kv_lens", kernel.kv_lens, kernel.k.size(1));
  }

  template <class T>
  static void reference(const Kernel<T>& kernel) {
    Terms terms(kernel);
    for (int64_t b = 0; b < kernel.q.size(0); ++b)
      for (int64_t h = 0; h < kernel.shape().q_heads; ++h)
        for (int64_t i = 0; i < kernel.q.size(1); ++i)
          for (int64_t j = 0; j < kernel.kv_len(b); ++j)
            if (AttentionFamily::sees(kernel.mask(b), i, j)) add_pair(kernel, b, h, i, j, terms);
    terms.q_grad.store(kernel.q_grad);
    terms.k_grad.store(kernel.k_grad);
    terms.v_grad.store(kernel.v_grad);
  }

  template <class T>
  static Cost cost(const Kernel<T>& kernel) {
    const kernels::SequenceLengths lengths{
        kernel.q.size(0), kernel.q.size(1), kernel.k.size(1), {}, {}, kernel.kv_lens};
    Cost out =
        AttentionFamily::cost(kernel.shape(), lengths, kernel.options(), sizeof(T), sizeof(T));
    out.flops *= 2.5;  // five products instead of two
    out.bytes *= 3;
    return out;
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg != "lse")
      return arg == "kv_lens" ? Attention::materialize(arg, known, combo, seed) : std::nullopt;
    return draw_lse({known["B"], known["Hq"], known["S"]}, double(known["L"]), seed);
  }
  /// Near those of scores around 0: far from them, a few rows would outweigh all others.
  static Tensor draw_lse(std::vector<int64_t> sizes, double keys, uint64_t seed) {
    const double middle = std::log(std::max(1.0, keys));
    return AttentionFamily::make<float>(std::move(sizes), [&](int64_t i) {
      return middle + 0.01 * double(AttentionFamily::mix_below(seed, i, 100));
    });
  }

  static constexpr Case kEdgeCases[] = {
      {"no batch", "B=0 S=4 Hq=2 L=4 H=1 D=8 Dv=8"},
      {"no queries", "B=1 S=0 Hq=2 L=4 H=1 D=8 Dv=8"},
      {"no keys", "B=1 S=3 Hq=2 L=0 H=1 D=8 Dv=8"},
      {"one element", "B=1 S=1 Hq=1 L=1 H=1 D=1 Dv=1"},
      {"blocks of queries and keys", "B=1 S=130 Hq=2 L=280 H=2 D=40 Dv=24"},
      {"causal", "B=1 S=67 Hq=1 L=200 H=1 D=32 Dv=32 causal=1 +kv_lens"},
      {"more queries than keys", "B=1 S=150 Hq=1 L=20 H=1 D=16 Dv=16 causal=1"},
      {"window, softcap",
       "B=1 S=90 Hq=2 L=140 H=1 D=20 Dv=36 window_left=37 window_right=5 "
       "softcap=3 scale=0.5"},
      {"heads of 128, groups", "B=2 S=200 Hq=4 L=333 H=2 D=128 Dv=128 causal=1 +kv_lens"},
      {"heads of 128, rows of 16 bytes", "B=1 S=129 Hq=2 L=257 H=2 D=104 Dv=72 window_left=90"},
      {"heads of 64", "B=1 S=300 Hq=2 L=270 H=1 D=64 Dv=64 softcap=5"},
      {"heads of 96", "B=1 S=150 Hq=2 L=200 H=1 D=96 Dv=96 causal=1"},
      {"heads of 192", "B=1 S=150 Hq=2 L=200 H=1 D=192 Dv=192 window_left=120"},
      {"heads of 192, values of 128", "B=1 S=150 Hq=2 L=150 H=2 D=192 Dv=128 causal=1"},
      {"heads of 256, groups", "B=2 S=200 Hq=4 L=333 H=2 D=256 Dv=256 causal=1 +kv_lens"},
      {"heads of 200, window, softcap",
       "B=1 S=257 Hq=2 L=190 H=2 D=200 Dv=136 window_left=90 softcap=5"},
      {"heads of 320, values of 264", "B=1 S=70 Hq=2 L=60 H=1 D=320 Dv=264 causal=1"},
      {"odd dims, groups", "B=2 S=37 Hq=6 L=100 H=2 D=13 Dv=99 causal=1 softcap=3 +kv_lens"},
      {"heads of 124, values of 36", "B=1 S=40 Hq=1 L=90 H=1 D=124 Dv=36 window_right=3"},
      {"groups", "B=2 S=7 Hq=6 L=9 H=2 D=5 Dv=3 causal=1 +kv_lens"}};
  static constexpr Case kWorkloads[] = {
      {"smollm2-135m/training", "B=1 S=512 Hq=9 L=512 H=3 D=64 Dv=64 causal=1"},
      {"H16 S1024 D64", "B=1 S=1024 Hq=16 L=1024 H=16 D=64 Dv=64"},
      {"H8 S2048 D128 causal", "B=1 S=2048 Hq=8 L=2048 H=8 D=128 Dv=128 causal=1"}};

 private:
  /// A tensor [B, N, H, D] in float64: each element is converted once, not for every pair.
  struct Wide {
    int64_t tokens, heads, dims;
    std::vector<double> values;

    /// Zeros of the shape of `x`.
    template <class V>
    explicit Wide(const V& x)
        : tokens(x.size(1)),
          heads(x.size(2)),
          dims(x.size(3)),
          values(size_t(x.size(0) * tokens * heads * dims)) {}
    template <class V>
    static Wide of(const V& x) {
      Wide out(x);
      double* to = out.values.data();
      for (int64_t b = 0; b < x.size(0); ++b)
        for (int64_t n = 0; n < x.size(1); ++n)
          for (int64_t h = 0; h < x.size(2); ++h)
            for (int64_t d = 0; d < x.size(3); ++d) *to++ = double(x(b, n, h, d));
      return out;
    }
    template <class T>
    void store(const View<T, 4>& to) const {
      const double* from = values.data();
      for (int64_t b = 0; b < to.size(0); ++b)
        for (int64_t n = 0; n < to.size(1); ++n)
          for (int64_t h = 0; h < to.size(2); ++h)
            for (int64_t d = 0; d < to.size(3); ++d) to(b, n, h, d) = T(*from++);
    }
    const double* at(int64_t b, int64_t n, int64_t h) const {
      return values.data() + ((b * tokens + n) * heads + h) * dims;
    }
    double* at(int64_t b, int64_t n, int64_t h) {
      return values.data() + ((b * tokens + n) * heads + h) * dims;
    }
  };
  struct Terms {
    Wide q, k, v, grad, output, q_grad, k_grad, v_grad;

    template <class K>
    explicit Terms(const K& x)
        : q(Wide::of(x.q)),
          k(Wide::of(x.k)),
          v(Wide::of(x.v)),
          grad(Wide::of(x.grad)),
          output(Wide::of(x.output)),
          q_grad(x.q),
          k_grad(x.k),
          v_grad(x.v) {}
  };

  /// What the pair of query i and key j of head h contributes.
  template <class T>
  static void add_pair(const Kernel<T>& x, int64_t b, int64_t h, int64_t i, int64_t j,
                       Terms& terms) {
    const int64_t g = h / x.shape().group(), dims = x.q.size(3), value_dims = x.v.size(3);
    const double scale = x.scale != 0 ? double(x.scale) : 1 / std::sqrt(double(dims));
    const double cap = double(x.softcap), lse = double(x.lse(b, h, i));
    const double *q = terms.q.at(b, i, h), *k = terms.k.at(b, j, g), *v = terms.v.at(b, j, g);
    const double *grad = terms.grad.at(b, i, h), *output = terms.output.at(b, i, h);
    double *q_grad = terms.q_grad.at(b, i, h), *k_grad = terms.k_grad.at(b, j, g),
           *v_grad = terms.v_grad.at(b, j, g);
    double score = 0, product = 0, delta = 0;
    for (int64_t d = 0; d < dims; ++d) score += scale * q[d] * k[d];
    double bend = 1;
    if (cap > 0) {
      const double t = std::tanh(score / cap);
      score = cap * t;
      bend = 1 - t * t;
    }
    const double weight = std::isinf(lse) && lse < 0 ? 0 : std::exp(score - lse);
    for (int64_t d = 0; d < value_dims; ++d) {
      product += grad[d] * v[d];
      delta += grad[d] * output[d];
      v_grad[d] += weight * grad[d];
    }
    const double slope = scale * bend * weight * (product - delta);
    for (int64_t d = 0; d < dims; ++d) {
      q_grad[d] += slope * k[d];
      k_grad[d] += slope * q[d];
    }
  }
};

}  // namespace tw::ops
