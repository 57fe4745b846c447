#pragma once

#include "tilewright/ops/core/loss.h"

namespace tw::ops {

/// Cross-entropy of logits with class labels, as torch.nn.functional.cross_entropy, and z_loss
/// times the square of each row's logsumexp. The mean of no rows is NaN. Throws kInvalidArgument
/// for a label that is neither a class nor ignore_index.
struct CrossEntropy {
  static constexpr Schema kSchema{
      "cross_entropy(x: T[N, V], target: I[N], ignore_index: i64 = -100, "
      "reduction: mean|sum|none = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> "
      "loss: T[*], lse: f32[N]?"};
  static constexpr Gradient kGradient{
      "cross_entropy_backward(grad=loss.grad, x, target, lse, ignore_index, reduction, "
      "label_smoothing, z_loss) -> x.grad"};
  using Types = Combos<Combo<float, int64_t>, Combo<f16, int64_t>, Combo<bf16, int64_t>>;
  using ReferenceTypes = Combos<Combo<double, int64_t>>;

  template <class T, class I>
  using Kernel = kernels::CrossEntropy<T, I>;

  static std::vector<std::vector<int64_t>> infer(const Call&, const Bindings& bindings) {
    const bool is_reduced = bindings.integer("reduction") != int(kernels::LossReduction::kNone);
    const int64_t rows = bindings["N"];
    return {is_reduced ? std::vector<int64_t>{} : std::vector<int64_t>{rows}, {rows}};
  }

  template <class T, class I>
  static Support supports_shapes(const kernels::CrossEntropy<T, I>& k) {
    if (k.loss.rows != (k.is_reduced() ? 1 : k.x.size(0)))
      return Support::no("loss has " + std::to_string(k.loss.rows) +
                         " elements, but its reduction makes " +
                         std::to_string(k.is_reduced() ? 1 : k.x.size(0)));
    return supports_smoothing(k.label_smoothing);
  }
  template <class T, class I>
  static Support supports(const kernels::CrossEntropy<T, I>& k) {
    return supports_labels(k.target, k.x.size(1), k.ignore_index);
  }

  template <class T, class I>
  static void reference(const kernels::CrossEntropy<T, I>& k) {
    double total = 0, counted = 0;
    for (int64_t r = 0; r < k.x.size(0); ++r) {
      const int64_t label = int64_t(k.target(r));
      const bool counts = label != k.ignore_index;
      const auto logit = [&](int64_t c) { return double(k.x(r, c)); };
      const double loss = counts ? cross_entropy_of(k.x.size(1), logit, label,
                                                    double(k.label_smoothing), double(k.z_loss))
                                 : 0;
      if (k.lse) k.lse(r) = counts ? float(logsumexp(k.x.size(1), logit)) : 0;
      if (!k.is_reduced()) k.loss(r, 0) = T(loss);
      total += loss;
      counted += counts;
    }
    if (k.is_reduced())
      k.loss(0, 0) = T(k.reduction == int(kernels::LossReduction::kMean) ? total / counted : total);
  }

  template <class T, class I>
  static Cost cost(const kernels::CrossEntropy<T, I>& k) {
    const double n = double(k.x.size(0)) * double(k.x.size(1));
    return {.flops = 16 * n, .bytes = double(sizeof(T)) * n};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg != "target") return std::nullopt;
    return random_labels(known["N"], known["V"], combo[1], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "N=0 V=5 reduction=sum +lse"},
      {"one element", "N=1 V=1 +lse"},
      {"sum", "N=7 V=5 reduction=sum +lse"},
      {"no reduction", "N=6 V=45 reduction=none +lse"},
      {"smoothing", "N=9 V=77 label_smoothing=0.1"},
      {"parts of rows", "N=3 V=5000 reduction=none label_smoothing=0.1 z_loss=0.01 +lse"},
      {"parts of rows, mean", "N=2 V=4099"},
      {"many rows", "N=600 V=5"},
      {"three blocks", "N=3 V=9001 reduction=sum"},
      {"z loss", "N=13 V=33 label_smoothing=0.2 z_loss=0.01 +lse"}};
  static constexpr Case kWorkloads[] = {{"smollm2-135m/training", "N=1024 V=49152"}};
};

}  // namespace tw::ops
