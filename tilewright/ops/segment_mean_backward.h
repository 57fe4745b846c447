#pragma once

#include <optional>
#include <vector>

#include "tilewright/kernels/segment_mean_backward.h"
#include "tilewright/ops/segment_mean.h"

namespace tw::ops {

/// The gradient of segment_mean. Of x only the shape is used.
struct SegmentMeanBackward {
  static constexpr Schema kSchema{
      "segment_mean_backward(grad: T[B, N, C], x: T[B, L, C], starts: I[N], ends: I[N]) -> "
      "x_grad: T[B, L, C]"};
  using Types = SegmentMean::Types;
  using ReferenceTypes = SegmentMean::ReferenceTypes;

  template <class T, class I>
  using Kernel = kernels::SegmentMeanBackward<T, I>;

  template <class T, class I>
  static Support supports(const Kernel<T, I>& k) {
    return SegmentMean::supports(k);
  }

  template <class T, class I>
  static void reference(const Kernel<T, I>& k) {
    for (int64_t b = 0; b < k.x.size(0); ++b)
      for (int64_t row = 0; row < k.x.size(1); ++row)
        for (int64_t c = 0; c < k.x.size(2); ++c) {
          double sum = 0;
          for (int64_t n = 0; n < k.starts.size(0); ++n)
            if (int64_t(k.starts(n)) <= row && row < int64_t(k.ends(n)))
              sum += double(k.grad(b, n, c)) / double(k.ends(n) - k.starts(n));
          k.x_grad(b, row, c) = T(sum);
        }
  }

  template <class T, class I>
  static Cost cost(const Kernel<T, I>& k) {
    const double n = double(k.x.size(0)) * double(k.x.size(2));
    return {.flops = n * double(k.x.size(1)),
            .bytes = double(sizeof(T)) * n * double(k.x.size(1) + k.starts.size(0))};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    return SegmentMean::materialize(arg, known, combo, seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no segments", "B=2 L=5 C=8 N=0"},       {"no rows", "B=2 L=0 C=8 N=3"},
      {"no columns", "B=1 L=4 C=0 N=2"},        {"one element", "B=1 L=1 C=1 N=1"},
      {"uneven segments", "B=2 L=37 C=45 N=5"}, {"empty segments", "B=1 L=3 C=9 N=7"}};
  static constexpr Case kWorkloads[] = {{"nsa/keys of 64", "B=1 L=8192 C=8192 N=128"}};
};

}  // namespace tw::ops
