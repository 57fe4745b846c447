// The definition of a linear layer with whole numbers of 4 or 8 bits as weights, shared by the
// operators of both widths.
#pragma once

#include <string_view>

#include "tilewright/kernels/linear_int.h"
#include "tilewright/ops/core/blocks.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

template <int kBits>
struct LinearIntDefinition {
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = kernels::LinearInt<T, kBits>;

  template <class T>
  static Support supports_shapes(const kernels::LinearInt<T, kBits>& k) {
    return supports_blocks("scale", kBits == 4 ? "2*P" : "K", k.x.cols, k.group_size,
                           k.scale.size(1));
  }

  template <class T>
  static void reference(const kernels::LinearInt<T, kBits>& k) {
    for (int64_t m = 0; m < k.out.rows; ++m)
      for (int64_t n = 0; n < k.out.cols; ++n) {
        double sum = k.bias ? double(k.bias(n)) : 0;
        for (int64_t i = 0; i < k.x.cols; ++i) {
          const int64_t g = i / k.group_size;
          const int byte = k.weight(n, i * kBits / 8);
          const int code = kBits == 8 ? byte : i % 2 == 0 ? byte & 15 : byte >> 4 & 15;
          const int zero = k.zero ? int(k.zero(n, g)) : kBits == 8 ? 0 : 8;
          sum += double(k.x(m, i)) * double(code - zero) * double(k.scale(n, g));
        }
        k.out(m, n) = T(sum);
      }
  }

  template <class T>
  static Cost cost(const kernels::LinearInt<T, kBits>& k) {
    const double m = double(k.out.rows), n = double(k.out.cols), depth = double(k.x.cols);
    const double groups = double(k.scale.size(1)), size = sizeof(T);
    return {.flops = 2 * m * n * depth,
            .bytes = n * (depth * kBits / 8 + groups * (size + (k.zero ? 1 : 0))) +
                     size * m * (depth + n)};
  }
};

}  // namespace tw::ops
