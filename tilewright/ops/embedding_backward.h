#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilewright/kernels/embedding_backward.h"
#include "tilewright/ops/embedding.h"

namespace tw::ops {

/// The gradient of embedding: row v is the sum of the rows of grad whose index is v, in their
/// order. Of weight only the shape is used.
struct EmbeddingBackward {
  static constexpr Schema kSchema{
      "embedding_backward(grad: T[*, C], indices: I[*], weight: T[V, C]) -> "
      "weight_grad: T[V, C]"};
  static constexpr bool kInPlace = false;
  using Types = Embedding::Types;
  using ReferenceTypes = Embedding::ReferenceTypes;

  template <class T, class I>
  using Kernel = kernels::EmbeddingBackward<T, I>;

  template <class T, class I>
  static Support supports(const kernels::EmbeddingBackward<T, I>& k) {
    for (int64_t r = 0; r < k.indices.rows; ++r)
      if (k.indices(r, 0) < 0 || k.indices(r, 0) >= k.weight.size(0))
        return Support::no("index " + std::to_string(k.indices(r, 0)) + " is outside the " +
                           std::to_string(k.weight.size(0)) + " rows of weight");
    return Support::yes();
  }

  template <class T, class I>
  static void reference(const kernels::EmbeddingBackward<T, I>& k) {
    const int64_t cols = k.weight_grad.size(1);
    std::vector<double> sums(size_t(k.weight_grad.size(0) * cols), 0.0);
    for (int64_t r = 0; r < k.indices.rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        sums[size_t(int64_t(k.indices(r, 0)) * cols + c)] += double(k.grad(r, c));
    for (int64_t v = 0; v < k.weight_grad.size(0); ++v)
      for (int64_t c = 0; c < cols; ++c) k.weight_grad(v, c) = T(sums[size_t(v * cols + c)]);
  }

  template <class T, class I>
  static Cost cost(const kernels::EmbeddingBackward<T, I>& k) {
    const double in = double(k.grad.rows) * double(k.grad.cols);
    const double out = double(k.weight_grad.size(0)) * double(k.weight_grad.size(1));
    return {.flops = in, .bytes = double(sizeof(T)) * (in + out)};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    return Embedding::materialize(arg, known, combo, seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no indices", "*=0 V=3 C=8"},           {"no columns", "*=2 V=3 C=0"},
      {"one element", "*=1 V=1 C=1"},          {"all the same", "*=40 V=1 C=37"},
      {"several programs", "*=300 V=100 C=5"}, {"spans and a tail", "*=2x3 V=11 C=77"},
      {"long lists", "*=400 V=3 C=40"},        {"wide rows", "*=70 V=5 C=1100"}};
  static constexpr Case kWorkloads[] = {{"smollm2-135m/training", "*=2048 V=49152 C=576"}};
};

}  // namespace tw::ops
