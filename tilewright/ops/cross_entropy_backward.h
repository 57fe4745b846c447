#pragma once

#include "tilewright/ops/core/loss.h"

namespace tw::ops {

/// The gradient of cross_entropy, from its logits and its lse. `x_grad` may alias `x`.
struct CrossEntropyBackward {
  static constexpr Schema kSchema{
      "cross_entropy_backward(grad: T[*], x: T[N, V], target: I[N], lse: f32[N], "
      "ignore_index: i64 = -100, reduction: mean|sum|none = mean, label_smoothing: f32 = 0, "
      "z_loss: f32 = 0) -> x_grad: T[N, V]"};
  using Types = Combos<Combo<float, int64_t>, Combo<f16, int64_t>, Combo<bf16, int64_t>>;
  using ReferenceTypes = Combos<Combo<double, int64_t>>;

  template <class T, class I>
  using Kernel = kernels::CrossEntropyBackward<T, I>;

  template <class T, class I>
  static Support supports_shapes(const kernels::CrossEntropyBackward<T, I>& k) {
    const bool is_reduced = k.reduction != int(kernels::LossReduction::kNone);
    if (k.grad.rows != (is_reduced ? 1 : k.x.size(0)))
      return Support::no("grad has " + std::to_string(k.grad.rows) +
                         " elements, but the reduction makes " +
                         std::to_string(is_reduced ? 1 : k.x.size(0)));
    return supports_smoothing(k.label_smoothing);
  }
  template <class T, class I>
  static Support supports(const kernels::CrossEntropyBackward<T, I>& k) {
    return supports_labels(k.target, k.x.size(1), k.ignore_index);
  }

  template <class T, class I>
  static void reference(const kernels::CrossEntropyBackward<T, I>& k) {
    using kernels::LossReduction;
    double counted = 0;
    for (int64_t r = 0; r < k.x.size(0); ++r) counted += int64_t(k.target(r)) != k.ignore_index;
    for (int64_t r = 0; r < k.x.size(0); ++r) {
      const int64_t label = int64_t(k.target(r));
      double scale = double(k.grad(k.reduction == int(LossReduction::kNone) ? r : 0, 0));
      if (k.reduction == int(LossReduction::kMean)) scale /= counted;
      for (int64_t c = 0; c < k.x.size(1); ++c)
        k.x_grad(r, c) =
            T(label == k.ignore_index
                  ? 0
                  : scale * cross_entropy_slope(k.x.size(1), double(k.x(r, c)), double(k.lse(r)),
                                                c == label, double(k.label_smoothing),
                                                double(k.z_loss)));
    }
  }

  template <class T, class I>
  static Cost cost(const kernels::CrossEntropyBackward<T, I>& k) {
    const double n = double(k.x.size(0)) * double(k.x.size(1));
    return {.flops = 12 * n, .bytes = 2 * double(sizeof(T)) * n};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg == "target") return random_labels(known["N"], known["V"], combo[1], seed);
    if (arg == "grad") {  // the shape follows the reduction
      Tensor out = known.scalars.find("reduction") && known.integer("reduction") == 2
                       ? Tensor::empty({known["N"]}, combo[0])
                       : Tensor::empty(std::vector<int64_t>{}, combo[0]);
      fill(out, combo[0], [&](int64_t i) { return 0.5 + 0.25 * double(i % 3); });
      return out;
    }
    if (arg != "lse") return std::nullopt;
    Tensor out = Tensor::empty({known["N"]}, DType::kF32);  // at least the largest logit
    fill(out, DType::kF32, [&](int64_t) { return 6.5; });
    return out;
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "N=0 V=5 reduction=sum"},
      {"one element", "N=1 V=1"},
      {"sum", "N=7 V=5 reduction=sum"},
      {"no reduction", "N=6 V=45 reduction=none"},
      {"smoothing", "N=9 V=77 label_smoothing=0.1"},
      {"parts of rows", "N=3 V=5000 reduction=none label_smoothing=0.1 z_loss=0.01"},
      {"parts of rows, mean", "N=2 V=4099"},
      {"many rows", "N=600 V=5"},
      {"three blocks", "N=3 V=9001 reduction=sum"},
      {"z loss", "N=13 V=33 label_smoothing=0.2 z_loss=0.01"}};
  static constexpr Case kWorkloads[] = {{"smollm2-135m/training", "N=1024 V=49152"}};

 private:
  template <class F>
  static void fill(Tensor& tensor, DType dtype, F&& value) {
    for (int64_t i = 0, n = tensor.ref().count(); i < n; ++i) {
      if (dtype == DType::kF32)
        tensor.span<float>()[size_t(i)] = float(value(i));
      else if (dtype == DType::kF16)
        tensor.span<f16>()[size_t(i)] = f16(value(i));
      else
        tensor.span<bf16>()[size_t(i)] = bf16(value(i));
    }
  }
};

}  // namespace tw::ops
