#pragma once

#include <vector>

#include "tilewright/kernels/delta_rule_transform.h"
#include "tilewright/ops/linear_attention.h"

namespace tw::ops {

/// The UT transform of the delta rule, for each chunk of steps: the inverse of I + the strictly
/// lower part of diag(beta) (Gamma * K K^T), where Gamma is what the gates leave between two steps.
/// Row i of `out` is that of step i, zero after its own column.
struct DeltaRuleTransform : LinearAttentionFamily {
  static constexpr Schema kSchema{
      "delta_rule_transform(k: T[B, L, Hv, D], beta: U[B, L, Hv], g: U[B, L, Hv]?, "
      "chunk_size: i64 = 64) -> out: U[B, L, Hv, chunk_size]"};

  template <class T, class U>
  using Kernel = kernels::DeltaRuleTransform<T, U>;

  template <class T, class U>
  static Support supports_shapes(const Kernel<T, U>& k) {
    return supports_chunks(k.chunk_size);
  }

  /// Gates of a step, which keep most of a state: as its corrections, but below zero.
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg != "g") return LinearAttentionFamily::materialize(arg, known, combo, seed);
    std::optional<Tensor> out = LinearAttentionFamily::materialize("beta", known, combo, seed + 1);
    const auto negate = [](auto gates) {
      for (auto& gate : gates) gate = -gate;
    };
    if (combo[1] == DType::kF64)
      negate(out->span<double>());
    else
      negate(out->span<float>());
    return out;
  }

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    for (int64_t b = 0; b < kernel.k.size(0); ++b)
      for (int64_t h = 0; h < kernel.k.size(2); ++h)
        for (int64_t first = 0; first < kernel.k.size(1); first += kernel.chunk_size)
          reference_chunk(kernel, b, h, first);
  }

  template <class T, class U>
  static Cost cost(const Kernel<T, U>& k) {
    const double steps = double(k.k.size(0) * k.k.size(1) * k.k.size(2));
    const double dims = double(k.k.size(3)), chunk = double(k.chunk_size);
    return {.flops = steps * chunk * (dims + chunk / 3),
            .bytes = steps * (double(sizeof(T)) * dims + double(sizeof(U)) * (chunk + 1))};
  }

  static constexpr Case kEdgeCases[] = {{"no steps", "B=1 L=0 Hv=2 D=8"},
                                        {"one step", "B=2 L=1 Hv=2 D=5 chunk_size=1"},
                                        {"no key dimensions", "B=1 L=5 Hv=1 D=0 chunk_size=3"},
                                        {"one chunk", "B=1 L=64 Hv=1 D=24"},
                                        {"ragged chunks", "B=2 L=45 Hv=3 D=17 chunk_size=16"},
                                        {"gates", "B=1 L=70 Hv=2 D=32 chunk_size=32 +g"},
                                        {"many dims", "B=1 L=33 Hv=2 D=75 chunk_size=16 +g"},
                                        {"few steps", "B=1 L=3 Hv=1 D=9 chunk_size=40 +g"},
                                        {"long chunks", "B=1 L=131 Hv=1 D=40 chunk_size=128"}};
  static constexpr Case kWorkloads[] = {{"qwen3-next/prefill", "B=1 L=4096 Hv=32 D=128 +g"}};

 private:
  template <class T, class U>
  static void reference_chunk(const Kernel<T, U>& kernel, int64_t b, int64_t h, int64_t first) {
    const int64_t size = kernel.chunk_size, count = std::min(size, kernel.k.size(1) - first);
    std::vector<double> rows(static_cast<size_t>(count * size), 0.0);
    for (int64_t i = 0; i < count; ++i) {
      double* const row = rows.data() + i * size;
      row[i] = 1;
      double gates = 0;
      for (int64_t j = i - 1; j >= 0; --j) {
        if (kernel.g) gates += double(kernel.g(b, first + j + 1, h));
        double dot = 0;
        for (int64_t d = 0; d < kernel.k.size(3); ++d)
          dot += double(kernel.k(b, first + i, h, d)) * double(kernel.k(b, first + j, h, d));
        const double weight = dot * std::exp(gates) * double(kernel.beta(b, first + i, h));
        for (int64_t c = 0; c <= j; ++c) row[c] -= weight * rows[size_t(j * size + c)];
      }
      for (int64_t c = 0; c < size; ++c) kernel.out(b, first + i, h, c) = U(row[c]);
    }
  }
};

}  // namespace tw::ops
