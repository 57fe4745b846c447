#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/segment_mean.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Means of the rows starts[n] .. ends[n] of each matrix; 0 where there are none. Throws
/// kInvalidArgument for rows that x does not have.
struct SegmentMean {
  static constexpr Schema kSchema{
      "segment_mean(x: T[B, L, C], starts: I[N], ends: I[N]) -> out: T[B, N, C]"};
  static constexpr Gradient kGradient{
      "segment_mean_backward(grad=out.grad, x=x.shape, starts, ends) -> x.grad"};
  using Types = Combos<Combo<float, int32_t>, Combo<f16, int32_t>, Combo<bf16, int32_t>,
                       Combo<float, int64_t>, Combo<f16, int64_t>, Combo<bf16, int64_t>>;
  using ReferenceTypes = Combos<Combo<double, int32_t>, Combo<double, int64_t>>;

  template <class T, class I>
  using Kernel = kernels::SegmentMean<T, I>;

  template <class K>
  static Support supports(const K& k) {
    for (int64_t n = 0; n < k.starts.size(0); ++n) {
      const auto first = int64_t(k.starts(n)), end = int64_t(k.ends(n));
      if (first < 0 || end < first || end > k.x.size(1))
        return Support::no("segment " + std::to_string(n) + ", " + std::to_string(first) + " .. " +
                           std::to_string(end) + ", is outside the " + std::to_string(k.x.size(1)) +
                           " rows of x");
    }
    return Support::yes();
  }

  template <class T, class I>
  static void reference(const Kernel<T, I>& k) {
    for (int64_t b = 0; b < k.x.size(0); ++b)
      for (int64_t n = 0; n < k.starts.size(0); ++n)
        for (int64_t c = 0; c < k.x.size(2); ++c) {
          double sum = 0;
          for (auto i = int64_t(k.starts(n)); i < int64_t(k.ends(n)); ++i)
            sum += double(k.x(b, i, c));
          const auto count = double(k.ends(n) - k.starts(n));
          k.out(b, n, c) = T(count > 0 ? sum / count : 0.0);
        }
  }

  template <class T, class I>
  static Cost cost(const Kernel<T, I>& k) {
    const double read = double(k.x.size(0) * k.x.size(1) * k.x.size(2));
    const double written = double(k.x.size(0) * k.starts.size(0) * k.x.size(2));
    return {.flops = read, .bytes = double(sizeof(T)) * (read + written)};
  }

  /// Starts at random, and ends a little later: at most as many rows as there are.
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg != "starts" && arg != "ends") return std::nullopt;
    const int64_t n = known["N"], rows = known["L"];
    Tensor out = Tensor::empty(std::vector<int64_t>{n}, combo[1]);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t place = arg == "starts" ? i : i + 1;
      const int64_t at = n > 0 ? rows * place / n : 0;
      if (combo[1] == DType::kI64)
        out.span<int64_t>()[size_t(i)] = at;
      else
        out.span<int32_t>()[size_t(i)] = static_cast<int32_t>(at);
    }
    static_cast<void>(seed);
    return out;
  }

  static constexpr Case kEdgeCases[] = {
      {"no segments", "B=2 L=5 C=8 N=0"},          {"no rows", "B=2 L=0 C=8 N=3"},
      {"no columns", "B=1 L=4 C=0 N=2"},           {"one element", "B=1 L=1 C=1 N=1"},
      {"uneven segments", "B=2 L=37 C=45 N=5"},    {"empty segments", "B=1 L=3 C=9 N=7"},
      {"blocks of columns", "B=1 L=9 C=4100 N=2"}, {"long segments", "B=2 L=1500 C=70 N=2"},
      {"many segments", "B=4 L=640 C=1024 N=64"}};
  static constexpr Case kWorkloads[] = {{"nsa/keys of 64", "B=1 L=8192 C=8192 N=128"}};
};

}  // namespace tw::ops
