#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/checked.h"
#include "tilewright/core/tensor.h"
#include "tilewright/kernels/grouped_gated_matmul.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/groups.h"
#include "tilewright/ops/core/numbered.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/rows.h"
#if !defined(__CUDACC__)  // device code has the kernel alone
#include "tilewright/ops/embedding.h"
#include "tilewright/ops/gelu_and_mul.h"
#include "tilewright/ops/gelu_tanh_and_mul.h"
#include "tilewright/ops/grouped_matmul.h"
#include "tilewright/ops/silu_and_mul.h"
#endif

namespace tw::ops {

/// act(a gate) * (a up) for rows in groups, each with its group's matrices: b has the gate's
/// columns before the up's. Sums and activation in float32. Groups as in grouped_matmul; rows of no
/// group are 0. Shazeer, arXiv:2002.05202, eq. 5 and 6.
struct GroupedGatedMatmul {
  static constexpr Schema kSchema{
      "grouped_gated_matmul(a: T[A, K], b: T[G, K, 2*N], offsets: i32[G], starts: i32[G]?, "
      "rows: i32[M]?, activation: silu|gelu|gelu_tanh = silu) -> out: T[M, N]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  static constexpr double kToleranceScale = 2;  // a CPU rounds the products to T

  template <class T>
  using Kernel = kernels::GroupedGatedMatmul<T>;

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& known) {
    const Slot& rows = call[4];
    return {{rows.present ? rows.tensor.sizes[0] : known["A"], known["N"]}};
  }

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.rows || k.a.size(0) == k.out.size(0) || k.out.size(0) == 0) return Support::yes();
    return Support::no("a has A = " + std::to_string(k.a.size(0)) + " rows, but out has M = " +
                       std::to_string(k.out.size(0)) + ", and no rows are given");
  }
  template <class T>
  static Support supports(const Kernel<T>& k) {
    if (Support s = supports_groups(k.groups(), k.out.size(0)); !s || !k.rows) return s;
    return supports_rows(k.rows, k.a.size(0));
  }

#if !defined(__CUDACC__)
  /// The call as calls of other operators: launch<Op>(kernel) runs one.
  template <class T, class Launch>
  static void compose(const Kernel<T>& k, Launch&& launch) {
    const int64_t m = k.out.size(0), columns = k.b.size(2), depth = k.a.size(1);
    const auto memory = tw::allocate(checked_mul(m * int64_t{sizeof(T)}, columns));
    T* const both = static_cast<T*>(memory.get());
    kernels::GroupedMatmul<T> product{k.a, k.b, k.offsets, k.starts, view(both, m, columns)};
    std::shared_ptr<void> gathered;
    if (k.rows) {
      gathered = tw::allocate(checked_mul(m * int64_t{sizeof(T)}, depth));
      product.a = gather(k, static_cast<T*>(gathered.get()), launch);
    }
    launch.template operator()<GroupedMatmul>(product);
    const Rows<const T> x = tw::rows<const T>(both, m, columns);
    const Rows<T> out = as_rows(k.out);
    with_operator(k.activation, [&]<class Op> {
      launch.template operator()<Op>(typename Op::template Kernel<T>{x, out});
    });
  }

  /// On a GPU it is one kernel, which gathers rows as often as there are tiles of columns: rows of
  /// large groups, which are bound by their products, are gathered first.
  template <class T, class Launch, class Allocate>
  static void compose_on_gpu(const Kernel<T>& k, Launch&& launch, Allocate&& allocate) {
    const int64_t m = k.out.size(0), groups = std::max<int64_t>(k.b.size(0), 1);
    if (!k.rows || m <= 128 * groups) return launch.template operator()<GroupedGatedMatmul>(k);
    const auto memory = allocate(checked_mul(m * int64_t{sizeof(T)}, k.a.size(1)));
    Kernel<T> product = k;
    product.a = gather(k, static_cast<T*>(memory.data()), launch);
    product.rows = {};
    launch.template operator()<GroupedGatedMatmul>(product);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t n = k.out.size(1);
    for (int64_t r = 0; r < k.out.size(0); ++r) {
      const int64_t g = group_of(k, r), q = g < k.b.size(0) && k.rows ? k.rows(r) : r;
      for (int64_t c = 0; c < n; ++c)
        k.out(r, c) =
            T(define(k.activation, grouped_sum(k, q, g, c)) * grouped_sum(k, q, g, n + c));
    }
  }
  static double define(int activation, double gate) {
    double out = 0;
    with_operator(activation, [&]<class Op> { out = Op::define(gate); });
    return out;
  }
#endif

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return grouped_cost(k, k.out.size(0));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "rows") return materialize_groups(arg, known["G"], known["M"], seed);
    return random_numbers({known["M"]}, known["A"], seed, 0);
  }

  static constexpr Case kEdgeCases[] = {
      {"no group", "G=0 A=5 M=5 K=4 N=4"},
      {"no rows", "G=3 A=0 M=0 K=4 N=4"},
      {"no columns", "G=3 A=5 M=5 K=4 N=0"},
      {"empty sums", "G=2 A=5 M=5 K=0 N=35"},
      {"one row", "G=1 A=1 M=1 K=33 N=40"},
      {"few rows a group", "G=9 A=20 M=20 K=70 N=37 activation=gelu"},
      {"gaps", "G=4 A=100 M=100 K=65 N=33 +starts activation=gelu_tanh"},
      {"many rows a group", "G=3 A=300 M=300 K=72 N=72"},
      {"parts of tiles", "G=9 A=900 M=900 K=72 N=264 activation=gelu"},
      {"tiles and gaps", "G=5 A=3000 M=3000 K=520 N=136 +starts"},
      {"gathered, few", "G=4 A=3 M=9 K=40 N=24 +rows"},
      {"gathered, tiles and gaps", "G=5 A=700 M=2100 K=136 N=136 +starts +rows"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b/gate_up", "G=128 A=512 M=4096 K=2048 N=768 +rows"},
      {"mixtral-8x7b/decode", "G=8 A=2 M=2 K=4096 N=14336"}};

 private:
#if !defined(__CUDACC__)
  /// Calls f with the operator of the activation alone.
  template <class F>
  static void with_operator(int activation, F&& f) {
    using enum kernels::GatedActivation;
    if (activation == int(kSilu)) return f.template operator()<SiluAndMul>();
    if (activation == int(kGelu)) return f.template operator()<GeluAndMul>();
    f.template operator()<GeluTanhAndMul>();
  }
  /// The rows that are multiplied.
  template <class T, class Launch>
  static View<const T, 2> gather(const Kernel<T>& k, T* to, Launch&& launch) {
    using Bits = bits_of<T>;
    const auto& a = k.a;
    const int64_t m = k.out.size(0), depth = a.size(1);
    launch.template operator()<Embedding>(kernels::Embedding<Bits, int32_t>{
        {reinterpret_cast<const Bits*>(a.data), {a.size(0), depth}, {a.stride(0), a.stride(1)}},
        as_rows(View<const int32_t, 2>{k.rows.data, {m, 1}, {k.rows.stride(0), 1}}),
        tw::rows(reinterpret_cast<Bits*>(to), m, depth)});
    return view<const T>(to, m, depth);
  }
#endif
};

}  // namespace tw::ops
