#pragma once

#include "tilewright/core/checked.h"
#include "tilewright/kernels/fused_linear_cross_entropy.h"
#include "tilewright/ops/core/loss.h"
#include "tilewright/ops/core/rows.h"
#if !defined(__CUDACC__)  // device code has the kernel alone
#include "tilewright/ops/cross_entropy.h"
#include "tilewright/ops/cross_entropy_backward.h"
#include "tilewright/ops/linear.h"
#include "tilewright/ops/matmul.h"
#include "tilewright/ops/scale.h"
#endif

namespace tw::ops {

/// Cross-entropy of the logits x weightᵀ, which never exist as a whole: they are made, used and
/// overwritten by their gradient a few rows at a time, and the gradients of x and weight are
/// finished in the same pass (Hsu et al., Liger Kernel, arXiv:2410.10989, section 3.2).
struct FusedLinearCrossEntropy {
  static constexpr Schema kSchema{
      "fused_linear_cross_entropy(x: T[N, H], weight: T[V, H], target: I[N], "
      "ignore_index: i64 = -100, reduction: mean|sum = mean, label_smoothing: f32 = 0, "
      "z_loss: f32 = 0) -> loss: T[], x_grad: T[N, H]?, weight_grad: T[V, H]?"};
  static constexpr Gradient kGradient{
      "mul(x=x_grad, other=loss.grad) -> x.grad; mul(x=weight_grad, other=loss.grad) -> "
      "weight.grad"};
  static constexpr bool kInPlace = false;  // weight's gradient takes x after x's is written
  using Types = Combos<Combo<float, int64_t>, Combo<f16, int64_t>, Combo<bf16, int64_t>>;
  using ReferenceTypes = Combos<Combo<double, int64_t>>;
  /// Logits are rounded to T, as a linear layer's are, and so is their gradient, and the sum of the
  /// weight's over what chunks of rows add to it. A logit of 300 features is in the tens, where a
  /// step of float16 is 1/64 to 1/32: by half of that part a weight is off.
  static constexpr double kToleranceScale = 8;
  static constexpr double kGpuToleranceScale = 12;  // 11.5 were seen in 1,000 draws
  /// A loss near 0 and its gradient are what is left of logits in the tens.
  static constexpr double kOperandTolerance = 0x1p-17;

  template <class T, class I>
  using Kernel = kernels::FusedLinearCrossEntropy<T, I>;

  template <class T, class I>
  static Support supports_shapes(const kernels::FusedLinearCrossEntropy<T, I>& k) {
    return supports_smoothing(k.label_smoothing);
  }
  template <class T, class I>
  static Support supports(const kernels::FusedLinearCrossEntropy<T, I>& k) {
    return supports_labels(k.target, k.weight.size(0), k.ignore_index);
  }

#if !defined(__CUDACC__)
  /// The call as calls of other operators: launch<Op>(kernel) runs one.
  template <class T, class I, class Launch>
  static void compose(const kernels::FusedLinearCrossEntropy<T, I>& k, Launch&& launch) {
    const int64_t rows = k.x.size(0), vocabulary = k.weight.size(0);
    const int64_t chunk = chunk_rows(rows, k.x.size(1), vocabulary);
    const Tensor logits = Tensor::empty({chunk, vocabulary}, dtype_of<T>);
    const Tensor losses = Tensor::empty({chunk}, dtype_of<T>);
    const Tensor lse = Tensor::empty({chunk}, DType::kF32);
    const double share = scale_of(k);
    const float scale =
        std::isfinite(share) ? float(share) : 0;  // if no row counts, none has a slope
    double total = 0;
    for (int64_t first = 0; first < rows; first += chunk) {
      const int64_t n = std::min(chunk, rows - first);
      const View<T, 2> here = view(logits.span<T>().data(), n, vocabulary);
      const auto loss = tw::rows(losses.span<T>().data(), n, 1);
      const View<float, 1> sums = view(lse.span<float>().data(), n);
      View<const I, 1> labels = k.target;
      labels.data += first * labels.stride(0);
      labels.sizes[0] = n;
      launch.template operator()<Linear>(
          kernels::Linear<T>{rows_from(k.x, first, n), k.weight, {}, {}, 0, {}, {}, as_rows(here)});
      launch.template operator()<CrossEntropy>(kernels::CrossEntropy<T, I>{
          as_const(here), labels, k.ignore_index, kNone, k.label_smoothing, k.z_loss, loss, sums});
      for (int64_t r = 0; r < n; ++r) total += double(loss(r, 0));
      if (k.x_grad || k.weight_grad) gradients(k, first, here, labels, sums, scale, launch);
    }
    if (k.weight_grad && rows == 0) clear(k.weight_grad);
    if (k.weight_grad && rows > 0 && scale != 1)
      launch.template operator()<Scale>(
          kernels::Scale<T>{as_rows(as_const(k.weight_grad)), scale, as_rows(k.weight_grad)});
    k.loss(0, 0) = T(total * share);
  }

  /// The same on a GPU, of which the host sees no element: allocate(bytes) owns memory there, and
  /// the kernel itself comes last.
  template <class T, class I, class Launch, class Allocate>
  static void compose_on_gpu(const kernels::FusedLinearCrossEntropy<T, I>& k, Launch&& launch,
                             Allocate&& allocate) {
    constexpr int64_t kLogitsBytes = int64_t{512} << 20, kSize = int64_t{sizeof(T)};
    const int64_t rows = k.x.size(0), vocabulary = k.weight.size(0);
    const int64_t fit = kLogitsBytes / kSize / std::max<int64_t>(vocabulary, 1) / 128 * 128;
    const int64_t chunk = std::min(std::max<int64_t>(fit, 128), rows);
    const auto logits = allocate(checked_mul(chunk * kSize, vocabulary));
    const auto losses = allocate(rows * kSize), lse = allocate(chunk * int64_t{sizeof(float)});
    for (int64_t first = 0; first < rows; first += chunk) {
      const int64_t n = std::min(chunk, rows - first);
      const View<T, 2> here = view(static_cast<T*>(logits.data()), n, vocabulary);
      const View<float, 1> sums = view(static_cast<float*>(lse.data()), n);
      View<const I, 1> labels = k.target;
      labels.data += first * labels.stride(0);
      labels.sizes[0] = n;
      launch.template operator()<Linear>(
          kernels::Linear<T>{rows_from(k.x, first, n), k.weight, {}, {}, 0, {}, {}, as_rows(here)});
      launch.template operator()<CrossEntropy>(kernels::CrossEntropy<T, I>{
          as_const(here), labels, k.ignore_index, kNone, k.label_smoothing, k.z_loss,
          tw::rows(static_cast<T*>(losses.data()) + first, n, 1), sums});
      if (k.x_grad || k.weight_grad) gradients(k, first, here, labels, sums, 1, launch);
    }
    kernels::FusedLinearCrossEntropy<T, I> last = k;
    last.losses = view(static_cast<const T*>(losses.data()), rows);
    launch.template operator()<FusedLinearCrossEntropy>(last);
  }
#endif

  template <class T, class I>
  static void reference(const kernels::FusedLinearCrossEntropy<T, I>& k) {
    const int64_t rows = k.x.size(0), features = k.x.size(1), classes = k.weight.size(0);
    std::vector<double> weight_grad(size_t(classes * features), 0.0), logits(size_t(classes), 0.0);
    const double scale = scale_of(k);
    double total = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t label = int64_t(k.target(r));
      std::vector<double> x_grad(size_t(features), 0.0);
      for (int64_t c = 0; c < classes; ++c) {
        logits[size_t(c)] = 0;
        for (int64_t h = 0; h < features; ++h)
          logits[size_t(c)] += double(k.x(r, h)) * double(k.weight(c, h));
      }
      const auto logit = [&](int64_t c) { return logits[size_t(c)]; };
      if (label != k.ignore_index) {
        const double smoothing = double(k.label_smoothing), z = double(k.z_loss);
        const double lse = logsumexp(classes, logit);
        total += cross_entropy_of(classes, logit, label, smoothing, z);
        for (int64_t c = 0; c < classes; ++c) {
          const double slope =
              scale * cross_entropy_slope(classes, logit(c), lse, c == label, smoothing, z);
          for (int64_t h = 0; h < features; ++h) {
            x_grad[size_t(h)] += slope * double(k.weight(c, h));
            weight_grad[size_t(c * features + h)] += slope * double(k.x(r, h));
          }
        }
      }
      for (int64_t h = 0; k.x_grad && h < features; ++h) k.x_grad(r, h) = T(x_grad[size_t(h)]);
    }
    for (int64_t c = 0; k.weight_grad && c < classes; ++c)
      for (int64_t h = 0; h < features; ++h)
        k.weight_grad(c, h) = T(weight_grad[size_t(c * features + h)]);
    k.loss(0, 0) = T(total * scale);
  }

  template <class T, class I>
  static Cost cost(const kernels::FusedLinearCrossEntropy<T, I>& k) {
    const double n = double(k.x.size(0)), h = double(k.x.size(1)), v = double(k.weight.size(0));
    const int products = 1 + (k.x_grad ? 1 : 0) + (k.weight_grad ? 1 : 0);
    return {.flops = 2 * products * n * h * v + 16 * n * v,
            .bytes = double(sizeof(T)) * products * (n * h + v * h)};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg != "target") return std::nullopt;
    return random_labels(known["N"], known["V"], combo[1], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "N=0 H=3 V=5 reduction=sum +x_grad +weight_grad"},
      {"one element", "N=1 H=1 V=1 +x_grad"},
      {"no row counts", "N=3 H=4 V=1 ignore_index=0 +x_grad +weight_grad"},
      {"loss alone", "N=5 H=7 V=11 label_smoothing=0.1"},
      {"two chunks", "N=150 H=9 V=33 reduction=sum +weight_grad"},
      {"gradients", "N=6 H=8 V=10 z_loss=0.01 +x_grad +weight_grad"}};
  static constexpr Case kWorkloads[] = {
      {"smollm2-135m/training", "N=1024 H=576 V=49152 +x_grad +weight_grad"},
      {"smollm2-135m/head, 128 tokens", "N=128 H=576 V=49152"},
      {"smollm2-135m/head, 1024 tokens", "N=1024 H=576 V=49152"}};

 private:
  static constexpr int kNone = int(kernels::LossReduction::kNone);
  static constexpr int kSum = int(kernels::LossReduction::kSum);

  /// Rows of logits at a time: as many as take the memory of x, and enough for a quick product.
  static int64_t chunk_rows(int64_t rows, int64_t features, int64_t vocabulary) {
    const int64_t even = vocabulary > 0 ? rows * features / vocabulary : rows;
    return std::min(std::max<int64_t>(even, 128), std::max<int64_t>(rows, 1));
  }

  /// What the reduction multiplies the sum with.
  template <class K>
  static double scale_of(const K& k) {
    if (k.reduction == kSum) return 1;
    int64_t counted = 0;
    for (int64_t r = 0; r < k.x.size(0); ++r) counted += int64_t(k.target(r)) != k.ignore_index;
    return 1 / double(counted);
  }

#if !defined(__CUDACC__)
  /// Turns the logits of a chunk into their gradient, and multiplies it out.
  template <class K, class T, class I, class Launch>
  static void gradients(const K& k, int64_t first, const View<T, 2>& logits,
                        const View<const I, 1>& labels, const View<float, 1>& lse, float scale,
                        Launch&& launch) {
    const int64_t n = logits.size(0), features = k.x.size(1), vocabulary = logits.size(1);
    launch.template operator()<CrossEntropyBackward>(
        kernels::CrossEntropyBackward<T, I>{{},
                                            as_const(logits),
                                            labels,
                                            as_const(lse),
                                            k.ignore_index,
                                            kSum,
                                            k.label_smoothing,
                                            k.z_loss,
                                            logits});
    const View<const T, 2> x = part(k.x, first, n);
    if (k.x_grad) {
      const View<T, 2> to = part(k.x_grad, first, n);
      launch.template operator()<Matmul>(kernels::Matmul<T>{
          batch_of(as_const(logits)), batch_of(k.weight), scale, {}, 1, batch_of(to)});
    }
    if (!k.weight_grad) return;
    const View<const T, 2> turned{logits.data, {vocabulary, n}, {1, logits.stride(0)}};
    const View<const T, 2> features_of{x.data, {features, n}, {x.stride(1), x.stride(0)}};
    Rows<const T> so_far;
    if (first > 0) so_far = as_rows(as_const(k.weight_grad));
    launch.template operator()<Linear>(kernels::Linear<T>{
        as_rows(turned), features_of, {}, so_far, 0, {}, {}, as_rows(k.weight_grad)});
  }
#endif

  template <class T>
  static View<T, 2> part(View<T, 2> x, int64_t first, int64_t count) {
    x.data += first * x.stride(0);
    x.sizes[0] = count;
    return x;
  }
  template <class T>
  static Rows<T> rows_from(const View<T, 2>& x, int64_t first, int64_t count) {
    return as_rows(part(x, first, count));
  }
  template <class T>
  static View<T, 3> batch_of(const View<T, 2>& x) {
    return {x.data, {1, x.size(0), x.size(1)}, {0, x.stride(0), x.stride(1)}};
  }
  template <class T, int kRank>
  static View<const T, kRank> as_const(const View<T, kRank>& x) {
    View<const T, kRank> out;
    out.data = x.data;
    for (int d = 0; d < kRank; ++d) {
      out.sizes[d] = x.sizes[d];
      out.strides[d] = x.strides[d];
    }
    return out;
  }
  template <class T>
  static void clear(const View<T, 2>& x) {
    for (int64_t r = 0; r < x.size(0); ++r)
      for (int64_t c = 0; c < x.size(1); ++c) x(r, c) = T(0.0f);
  }
};

}  // namespace tw::ops
