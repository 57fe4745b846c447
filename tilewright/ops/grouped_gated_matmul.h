#pragma once

#include <optional>

#include "tilewright/core/checked.h"
#include "tilewright/core/tensor.h"
#include "tilewright/kernels/grouped_gated_matmul.h"
#include "tilewright/ops/core/groups.h"
#include "tilewright/ops/core/operator.h"
#if !defined(__CUDACC__)  // device code has the kernel alone
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
      "grouped_gated_matmul(a: T[M, K], b: T[G, K, 2*N], offsets: i32[G], starts: i32[G]?, "
      "activation: silu|gelu|gelu_tanh = silu) -> out: T[M, N]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  static constexpr double kToleranceScale = 4;  // a CPU rounds the products to T

  template <class T>
  using Kernel = kernels::GroupedGatedMatmul<T>;

  template <class T>
  static Support supports(const Kernel<T>& k) {
    return supports_groups(k.groups(), k.a.size(0));
  }

#if !defined(__CUDACC__)
  /// The call as calls of other operators: launch<Op>(kernel) runs one.
  template <class T, class Launch>
  static void compose(const Kernel<T>& k, Launch&& launch) {
    const int64_t m = k.out.size(0), columns = k.b.size(2);
    const auto memory = tw::allocate(checked_mul(m * int64_t{sizeof(T)}, columns));
    T* const both = static_cast<T*>(memory.get());
    launch.template operator()<GroupedMatmul>(
        kernels::GroupedMatmul<T>{k.a, k.b, k.offsets, k.starts, view(both, m, columns)});
    const Rows<const T> x = rows<const T>(both, m, columns);
    const Rows<T> out = rows_of(k.out);
    with_operator(k.activation, [&]<class Op> {
      launch.template operator()<Op>(typename Op::template Kernel<T>{x, out});
    });
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t n = k.out.size(1);
    for (int64_t r = 0; r < k.out.size(0); ++r)
      for (int64_t c = 0; c < n; ++c) {
        double gate = 0, up = 0;
        for (int64_t g = 0; g < k.offsets.size(0); ++g) {
          const int64_t before = g > 0 ? k.offsets(g - 1) : 0;
          if (r < (k.starts ? k.starts(g) : before) || r >= k.offsets(g)) continue;
          for (int64_t i = 0; i < k.a.size(1); ++i) {
            gate += double(k.a(r, i)) * double(k.b(g, i, c));
            up += double(k.a(r, i)) * double(k.b(g, i, n + c));
          }
        }
        k.out(r, c) = T(define(k.activation, gate) * up);
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
    const double m = double(k.out.size(0)), n = double(k.b.size(2)), depth = double(k.a.size(1));
    const double groups = double(k.b.size(0));
    return {.flops = 2 * m * n * depth,
            .bytes = double(sizeof(T)) * (m * depth + groups * n * depth + m * n / 2)};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    return materialize_groups(arg, known["G"], known["M"], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no group", "G=0 M=5 K=4 N=4"},
      {"no rows", "G=3 M=0 K=4 N=4"},
      {"no columns", "G=3 M=5 K=4 N=0"},
      {"empty sums", "G=2 M=5 K=0 N=35"},
      {"one row", "G=1 M=1 K=33 N=40"},
      {"few rows a group", "G=9 M=20 K=70 N=37 activation=gelu"},
      {"gaps", "G=4 M=100 K=65 N=33 +starts activation=gelu_tanh"},
      {"many rows a group", "G=3 M=300 K=72 N=72"},
      {"parts of tiles", "G=9 M=900 K=72 N=264 activation=gelu"},
      {"tiles and gaps", "G=5 M=3000 K=520 N=136 +starts"}};
  static constexpr Case kWorkloads[] = {{"qwen3-30b-a3b/gate_up", "G=128 M=4096 K=2048 N=768"},
                                        {"mixtral-8x7b/decode", "G=8 M=2 K=4096 N=14336"}};

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
#endif
  template <class T>
  static Rows<T> rows_of(const View<T, 2>& x) {
    Rows<T> out = rows(x.data, x.size(0), x.size(1));
    out.lead_strides[0] = x.stride(0), out.col_stride = x.stride(1);
    return out;
  }
};

}  // namespace tw::ops
