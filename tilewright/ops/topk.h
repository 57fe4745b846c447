#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/topk.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/elementwise.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

/// The k largest of each row, the largest first, and their columns; of equals the first, NaN before
/// all. With starts or ends, of the columns from one to the other alone. Where there are fewer than
/// k, also of k > C, -inf and -1 follow.
struct Topk {
  static constexpr Schema kSchema{
      "topk(x: T[*, C], k: i64, starts: i32[*]?, ends: i32[*]?) -> values: T[*, k], "
      "indices: i32[*, k]"};
  static constexpr Gradient kGradient{
      "topk_backward(grad=values.grad, indices, x=x.shape) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Topk<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.x.cols > std::numeric_limits<int32_t>::max())
      return Support::no("C = " + std::to_string(k.x.cols) + " does not fit an i32 index");
    return Support::yes();
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      const auto clamped = [&](const Rows<const int32_t>& given, int64_t otherwise) {
        return given ? std::clamp<int64_t>(given(r, 0), 0, k.x.cols) : otherwise;
      };
      std::vector<int64_t> columns;
      for (int64_t c = clamped(k.starts, 0); c < clamped(k.ends, k.x.cols); ++c)
        columns.push_back(c);
      std::stable_sort(columns.begin(), columns.end(), [&](int64_t a, int64_t b) {
        const double left = double(k.x(r, a)), right = double(k.x(r, b));
        return left > right || (left != left && right == right);
      });
      for (int64_t i = 0; i < k.k; ++i) {
        const bool has = i < int64_t(columns.size());
        const int64_t from = has ? columns[size_t(i)] : -1;
        k.indices(r, i) = int32_t(from);
        k.values(r, i) = has ? k.x(r, from) : T(-std::numeric_limits<float>::infinity());
      }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 1, 2);
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "starts" && arg != "ends") return std::nullopt;
    Tensor out = Tensor::empty(known.lead, DType::kI32);
    for (int32_t& bound : out.span<int32_t>()) {
      const int64_t place = random_below(seed, known["C"] + 3);
      bound = int32_t(arg == "starts" ? place / 2 - 1 : known["C"] + 1 - place / 2);
    }
    return out;
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8 k=3"},
                                        {"no columns", "*=3 C=0 k=2"},
                                        {"none", "*=3 C=5 k=0"},
                                        {"one element", "*=2 C=1 k=1"},
                                        {"more than there are", "*=2x3 C=5 k=9"},
                                        {"all in order", "*=3 C=77 k=77"},
                                        {"a few", "*=5 C=9001 k=33"},
                                        {"many", "*=2 C=3000 k=1025"},
                                        {"of short rows", "*=67 C=128 k=8"},
                                        {"the largest of many", "*=2 C=20000 k=1"},
                                        {"many of more", "*=2 C=20000 k=700"},
                                        {"from a column", "*=4x3 C=45 k=7 +starts"},
                                        {"windows", "*=9 C=45 k=12 +starts +ends"}};
  static constexpr Case kWorkloads[] = {{"deepseek-v3.2/indexer", "*=64 C=65536 k=2048"},
                                        {"llama-3.1-8b/vocabulary", "*=4 C=128256 k=64"}};
};

}  // namespace tw::ops
