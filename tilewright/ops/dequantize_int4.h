#pragma once

#include <optional>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/dequantize_int4.h"
#include "tilewright/ops/core/blocks.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Rows of 4-bit numbers without sign, two in a byte with the low half first, less the zero point
/// of their group and times its scale.
struct DequantizeInt4 {
  static constexpr Schema kSchema{
      "dequantize_int4(x: i8[N, P], scale: T[N, G], zero: i8[N, G], group_size: i64 = 128) -> "
      "out: T[N, 2*P]"};
  using Types = Combos<Combo<float>, Combo<f16>>;

  template <class T>
  using Kernel = kernels::DequantizeInt4<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return supports_blocks("scale", "2*P", k.out.size(1), k.group_size, k.scale.size(1));
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t n = 0; n < k.out.size(0); ++n)
      for (int64_t c = 0; c < k.out.size(1); ++c) {
        const int byte = uint8_t(k.x(n, c / 2));
        const int code = c % 2 == 0 ? byte % 16 : byte / 16;
        const int64_t g = c / k.group_size;
        k.out(n, c) = T(double(code - int(k.zero(n, g))) * double(k.scale(n, g)));
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.out.size(0)) * double(k.out.size(1));
    return {.flops = 2 * n, .bytes = n * (0.5 + double(sizeof(T)))};
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "N=0 P=8 G=1"},
                                        {"no columns", "N=3 P=0 G=0"},
                                        {"one byte", "N=1 P=1 G=1"},
                                        {"groups of 128", "N=3 P=150 G=3"},
                                        {"odd groups", "N=5 P=17 G=5 group_size=7"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/up", "N=14336 P=2048 G=32"},
                                        {"small", "N=1024 P=512 G=8"}};
};

}  // namespace tw::ops
