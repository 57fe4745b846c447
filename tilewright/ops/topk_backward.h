#pragma once

#include <optional>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/topk_backward.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/elementwise.h"
#include "tilewright/ops/core/numbered.h"

namespace tw::ops {

/// The gradient of topk's values: each where indices say, 0 elsewhere; -1 is nowhere. The indices
/// of a row differ. Of x only the shape is used. Throws kInvalidArgument for an index that x lacks.
struct TopkBackward {
  static constexpr Schema kSchema{
      "topk_backward(grad: T[*, K], indices: i32[*, K], x: T[*, C]) -> x_grad: T[*, C]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::TopkBackward<T>;

  template <class T>
  static Support supports(const Kernel<T>& k) {
    return supports_numbers("index", k.indices, k.x.cols, "columns of x");
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x_grad.rows; ++r) {
      for (int64_t c = 0; c < k.x_grad.cols; ++c) k.x_grad(r, c) = T(0.0);
      for (int64_t i = 0; i < k.indices.cols; ++i)
        if (k.indices(r, i) >= 0) k.x_grad(r, k.indices(r, i)) = k.grad(r, i);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 1, 0);
  }

  /// Columns at equal distances, in falling order; -1 once there are no more.
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "indices") return std::nullopt;
    std::vector<int64_t> sizes = known.lead;
    sizes.push_back(known["K"]);
    Tensor out = Tensor::empty(sizes, DType::kI32);
    const int64_t columns = known["C"], count = known["K"];
    const int64_t step = count > 0 && columns > count ? columns / count : 1;
    int64_t place = 0;
    for (int32_t& index : out.span<int32_t>()) {
      const int64_t nth = place++ % count;
      const int64_t shift = step > 1 ? int64_t(seed % uint64_t(step)) : 0;
      index = int32_t(nth * step < columns ? columns - 1 - nth * step - shift : -1);
      index = index < 0 ? -1 : index;
    }
    return out;
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8 K=3"},
                                        {"no columns", "*=3 C=0 K=2"},
                                        {"none", "*=3 C=5 K=0"},
                                        {"one element", "*=2 C=1 K=1"},
                                        {"more than there are", "*=2 C=5 K=9"},
                                        {"all of them", "*=3 C=77 K=77"},
                                        {"a few", "*=5x2 C=3001 K=33"}};
  static constexpr Case kWorkloads[] = {{"deepseek-v3.2/indexer", "*=64 C=65536 K=2048"}};
};

}  // namespace tw::ops
