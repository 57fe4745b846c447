// What quantization to the 8-bit types shares.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "tilewright/kernels/quantize.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/norm.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

template <class Q, template <class> class K>
struct QuantizeFamily {
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = K<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.x.cols % k.group_size != 0)
      return Support::no("group_size = " + std::to_string(k.group_size) +
                         " must divide C = " + std::to_string(k.x.cols));
    return supports_eps(double(k.eps));
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    using As = kernels::QuantizedAs<Q>;
    [[maybe_unused]] bool truncate = false;
    if constexpr (requires { k.truncate; }) truncate = k.truncate;
    for (int64_t r = 0; r < k.x.rows; ++r)
      for (int64_t c = 0; c < k.x.cols; c += k.group_size) {
        double most = 0;
        for (int64_t i = c; i < c + k.group_size; ++i) {
          const double x = std::fabs(double(k.x(r, i)));
          most = x != x || x > most ? x : most;
        }
        // Scales are float32 by definition: codes depend on their last bit.
        float scale = float(most < double(k.eps) ? k.eps : float(most)) / As::kLargest;
        if (scale == 0) scale = 1;
        if (k.power_of_two && std::isfinite(scale))
          scale = float(std::exp2(std::ceil(std::log2(double(scale)))));
        k.scale(r, c / k.group_size) = scale;
        for (int64_t i = c; i < c + k.group_size; ++i) {
          const float code =
              std::clamp(float(double(k.x(r, i)) / double(scale)), As::kLeast, As::kLargest);
          if constexpr (std::is_integral_v<Q>)
            k.out(r, i) = std::isnan(code) ? Q{} : Q(truncate ? code : std::nearbyint(code));
          else
            k.out(r, i) = Q(code);
        }
      }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.x.rows) * double(k.x.cols);
    return {.flops = 3 * n, .bytes = n * double(sizeof(T) + sizeof(Q))};
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8 group_size=8"},
                                        {"no columns", "*=3 C=0 group_size=4"},
                                        {"one element", "*=2 C=1 group_size=1"},
                                        {"small groups", "*=3 C=45 group_size=5"},
                                        {"groups of 128", "*=2x3 C=384 group_size=128"},
                                        {"powers of two", "*=4 C=96 group_size=32 power_of_two=1"},
                                        {"a large eps", "*=4 C=96 group_size=32 eps=100"},
                                        {"no eps", "*=2 C=300 group_size=300 eps=0"},
                                        {"whole rows", "*=3 C=2048 group_size=2048"},
                                        {"long groups", "*=2 C=40000 group_size=20000"}};
  static constexpr Case kWorkloads[] = {{"deepseek-v3/prefill", "*=4096 C=7168 group_size=128"},
                                        {"deepseek-v3/decode", "*=1 C=7168 group_size=128"}};
};

}  // namespace tw::ops
