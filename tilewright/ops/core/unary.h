// What the operators out = f(x) share. `Def` gives kSchema and the float64 function define(x).
#pragma once

#include <cmath>

#include "tilewright/kernels/gated.h"
#include "tilewright/kernels/unary.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

template <class Def, class F>
struct UnaryOperator {
  using Types = FloatCombos;

  template <class T>
  using Kernel = kernels::Unary<T, F>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c) k.out(r, c) = T(Def::define(double(k.x(r, c))));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 16);  // about as many as a polynomial and a range reduction
  }

  static constexpr auto& kEdgeCases = kUnaryCases;
  static constexpr auto& kWorkloads = kUnaryWorkloads;
};

inline constexpr Case kGatedCases[] = {{"no rows", "*=0 H=8"},
                                       {"no columns", "*=3 H=0"},
                                       {"one element", "*=1 H=1"},
                                       {"rows shorter than a span", "*=7 H=5"},
                                       {"spans and a tail", "*=2x3 H=45"},
                                       {"two blocks", "*=2 H=20001"},
                                       {"rows of several blocks", "*=3 H=776"}};
inline constexpr Case kGatedWorkloads[] = {{"smollm2-135m/decode", "*=1 H=1536"},
                                           {"llama-3.1-8b/decode", "*=1 H=14336"},
                                           {"llama-3.1-8b/batch-16", "*=16 H=14336"},
                                           {"llama-3.1-8b/batch-32", "*=32 H=14336"},
                                           {"llama-3.1-8b/batch-64", "*=64 H=14336"},
                                           {"llama-3.1-8b/prefill", "*=512 H=14336"},
                                           {"64 MiB", "*=2048 H=2730"}};

/// What the operators out = f(first half of x) * second half share.
template <class Def, class F>
struct GatedOperator {
  using Types = FloatCombos;
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16};

  template <class T>
  using Kernel = kernels::Gated<T, F>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = T(Def::define(double(k.x(r, c))) * double(k.x(r, c + k.out.cols)));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 3, 17);
  }

  static constexpr const auto& kEdgeCases = kGatedCases;
  static constexpr const auto& kWorkloads = kGatedWorkloads;
};

}  // namespace tw::ops
