#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/embedding.h"
#include "tilewright/kernels/relayout.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

/// Row indices[i] of weight for every index. Throws kInvalidArgument for an index outside 0 .. V.
struct Embedding {
  static constexpr Schema kSchema{"embedding(weight: T[V, C], indices: I[*]) -> out: T[*, C]"};
  static constexpr Gradient kGradient{
      "embedding_backward(grad=out.grad, indices, weight=weight.shape) -> weight.grad"};
  using Types = Combos<Combo<float, int32_t>, Combo<f16, int32_t>, Combo<bf16, int32_t>,
                       Combo<float, int64_t>, Combo<f16, int64_t>, Combo<bf16, int64_t>>;
  using ReferenceTypes = Combos<Combo<double, int32_t>, Combo<double, int64_t>>;

  template <class T, class I>
  using Kernel = kernels::Embedding<bits_of<T>, I>;

  template <class T, class I>
  static Support supports(const kernels::Embedding<T, I>& k) {
    for (int64_t r = 0; r < k.indices.rows; ++r)
      if (k.indices(r, 0) < 0 || k.indices(r, 0) >= k.weight.size(0))
        return Support::no("index " + std::to_string(k.indices(r, 0)) + " is outside the " +
                           std::to_string(k.weight.size(0)) + " rows of weight");
    return Support::yes();
  }

  template <class T, class I>
  static void reference(const kernels::Embedding<T, I>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) k.out(r, c) = k.weight(k.indices(r, 0), c);
  }

  template <class T, class I>
  static Cost cost(const kernels::Embedding<T, I>& k) {
    const double rows = double(k.out.rows);
    return {.flops = 0,
            .bytes = rows * (2 * double(k.out.cols) * double(sizeof(T)) + double(sizeof(I)))};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg != "indices") return std::nullopt;
    Tensor out = Tensor::empty(known.lead, combo[1]);
    for (int64_t i = 0, n = out.ref().count(); i < n; ++i) {
      const int64_t index = random_below(seed, std::max<int64_t>(known["V"], 1));
      if (combo[1] == DType::kI64)
        out.span<int64_t>()[size_t(i)] = index;
      else
        out.span<int32_t>()[size_t(i)] = static_cast<int32_t>(index);
    }
    return out;
  }

  static constexpr Case kEdgeCases[] = {{"no indices", "*=0 V=3 C=8"},
                                        {"no columns", "*=2 V=3 C=0"},
                                        {"one element", "*=1 V=1 C=1"},
                                        {"partial span only", "*=4 V=3 C=5"},
                                        {"spans and a tail", "*=2x3 V=11 C=77"}};
  static constexpr Case kWorkloads[] = {{"smollm2-135m/prefill", "*=512 V=49152 C=576"},
                                        {"llama-3.1-8b/prefill", "*=2048 V=128256 C=4096"}};
};

}  // namespace tw::ops
