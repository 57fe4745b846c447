#pragma once

#include <optional>
#include <vector>

#include "tilewright/core/checked.h"
#include "tilewright/core/tensor.h"
#include "tilewright/kernels/grouped_matmul_unpermute.h"
#include "tilewright/ops/core/groups.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/unpermuted.h"
#if !defined(__CUDACC__)  // device code has the kernel alone
#include "tilewright/ops/grouped_matmul.h"
#include "tilewright/ops/moe_combine.h"
#endif

namespace tw::ops {

/// grouped_matmul whose row r becomes row to_rows[r] of out, or nothing where that is outside out:
/// each row of out must be that of one. Rows of out are multiplied by their weights, but for those
/// of no group, which are 0. `order` of moe_align undoes a router's sorting.
struct GroupedMatmulUnpermute {
  static constexpr Schema kSchema{
      "grouped_matmul_unpermute(a: T[M, K], b: T[G, K, N], offsets: i32[G], starts: i32[G]?, "
      "to_rows: i32[M]?, weights: f32[R]?, out_rows: i64 = -1) -> out: T[R, N]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  static constexpr double kToleranceScale = 2;  // a CPU rounds the products to T

  template <class T>
  using Kernel = kernels::GroupedMatmulUnpermute<T>;

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& known) {
    return Unpermuted::infer(call, known);
  }
  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return Unpermuted::supports_shapes(k);
  }
  template <class T>
  static Support supports(const Kernel<T>& k) {
    if (Support s = Unpermuted::supports(k); !s) return s;
    return supports_groups(k.groups(), k.a.size(0));
  }

#if !defined(__CUDACC__)
  /// The call as calls of other operators: launch<Op>(kernel) runs one.
  template <class T, class Launch>
  static void compose(const Kernel<T>& k, Launch&& launch) {
    const int64_t m = k.a.size(0), rows = k.out.size(0), columns = k.out.size(1);
    const auto memory = tw::allocate(checked_mul(m * int64_t{sizeof(T)}, columns));
    T* const made = static_cast<T*>(memory.get());
    launch.template operator()<GroupedMatmul>(
        kernels::GroupedMatmul<T>{k.a, k.b, k.offsets, k.starts, view(made, m, columns)});
    std::vector<int32_t> from(static_cast<size_t>(rows), -1);  // of no group: weights do not matter
    for (int64_t g = 0; g < k.groups().count(); ++g)
      for (int64_t r = k.groups().begin(g); r < k.groups().end(g); ++r)
        if (const int64_t to = Unpermuted::destination(k, r); to >= 0)
          from[static_cast<size_t>(to)] = static_cast<int32_t>(r);
    launch.template operator()<MoeCombine>(
        kernels::MoeCombine<T>{tw::rows<const T>(made, m, columns),
                               view<const int32_t>(from.data(), rows, 1),
                               {k.weights.data, {k.weights.size(0), 1}, {k.weights.stride(0), 1}},
                               1,
                               k.out});
  }
#endif

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.a.size(0); ++r) {
      const int64_t to = Unpermuted::destination(k, r);
      if (to < 0) continue;
      const int64_t g = group_of(k, r);
      const double weight = k.weights && g < k.b.size(0) ? double(k.weights(to)) : 1;
      for (int64_t n = 0; n < k.out.size(1); ++n)
        k.out(to, n) = T(grouped_sum(k, r, g, n) * weight);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return grouped_cost(k, k.a.size(0));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (auto made = Unpermuted::materialize(arg, known, seed)) return made;
    return materialize_groups(arg, known["G"], known["M"], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no group", "G=0 M=5 R=5 K=4 N=4 +to_rows +weights"},
      {"no rows", "G=3 M=0 R=0 K=4 N=4"},
      {"no rows of out", "G=3 M=5 R=0 K=4 N=4 out_rows=0 +to_rows"},
      {"no columns", "G=3 M=5 R=5 K=4 N=0 +to_rows"},
      {"empty sums", "G=2 M=5 R=5 K=0 N=35 +to_rows +weights"},
      {"one row", "G=1 M=1 R=1 K=33 N=40 +weights"},
      {"rows of their own", "G=4 M=60 R=60 K=40 N=72"},
      {"few rows a group", "G=9 M=20 R=20 K=72 N=37 +to_rows +weights"},
      {"gaps", "G=4 M=100 R=100 K=65 N=33 +starts +to_rows +weights"},
      {"parts of tiles", "G=9 M=900 R=900 K=72 N=264 +to_rows"},
      {"rows left out", "G=5 M=700 R=600 K=136 N=136 out_rows=600 +starts +to_rows +weights"},
      {"tiles and gaps", "G=5 M=3000 R=3000 K=136 N=136 +starts +to_rows +weights"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b/down", "G=128 M=4096 R=4096 K=768 N=2048 +to_rows +weights"},
      {"8 x 512", "G=8 M=4096 R=4096 K=1024 N=1024 +to_rows +weights"}};
};

}  // namespace tw::ops
