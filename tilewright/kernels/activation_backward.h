//   x_grad = grad f'(x), elementwise, for activations with parameters. At their corners as PyTorch
//   has it.
#pragma once

#include "tilewright/kernels/activation_functions.h"

namespace tw::kernels {

/// grad between a and b, both included; 0 elsewhere.
struct ClampToRangeSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters p) const {
    return tile::select((x >= tile::splat<V>(p.a)) & (x <= tile::splat<V>(p.b)), grad, V{});
  }
};
struct HardsigmoidSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters) const {
    const auto is_inside = (x > tile::splat<V>(-3.0f)) & (x < tile::splat<V>(3.0f));
    return tile::select(is_inside, grad / 6.0f, V{});
  }
};
/// x / 3 + 1 / 2 between -3 and 3.
struct HardswishSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters) const {
    const V within = grad * (x / 3.0f + 0.5f);
    const V below_3 = tile::select(x >= tile::splat<V>(3.0f), grad, within);
    return tile::select(x <= tile::splat<V>(-3.0f), V{}, below_3);
  }
};
/// t + x σ(x) (1 - t^2), t = tanh(ln(1 + e^x)).
struct MishSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters) const {
    const V bounded = tile::min(tile::splat<V>(20.0f), x);  // beyond, the slope is 1
    const V e = tile::exp(bounded);
    const V n = e * (e + 2.0f), t = n / (n + 2.0f);
    const V rest = 4.0f * (n + 1.0f) / ((n + 2.0f) * (n + 2.0f));  // 1 - t^2
    return grad * tile::fma(bounded * (e / (e + 1.0f)), rest, t);
  }
};
struct LeakyReluSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters p) const {
    return tile::select(x > V{}, grad, grad * p.a);
  }
};
struct EluSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters p) const {
    return grad * p.b * tile::select(x > V{}, tile::splat<V>(1.0f), tile::exp(x) * p.a);
  }
};
struct SoftplusSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters p) const {
    const V scaled = x * p.a;
    return tile::select(scaled > tile::splat<V>(p.b), grad, grad * tile::sigmoid(scaled));
  }
};
/// 0 where a number was put for x.
struct NanToNumSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x, ActivationParameters) const {
    return grad * tile::select(x - x == V{}, tile::splat<V>(1.0f), V{});
  }
};
struct RoundSlope {
  template <class V>
  TW_INLINE V operator()(V, V, ActivationParameters) const {
    return V{};
  }
};

/// In the order of the schema of ops/activation.h.
using ActivationSlopes = OneOf<ClampToRangeSlope, HardsigmoidSlope, HardswishSlope, MishSlope,
                               LeakyReluSlope, EluSlope, SoftplusSlope, NanToNumSlope, RoundSlope>;
static_assert(ActivationSlopes::kCount == ActivationFunctions::kCount);

template <class T>
struct ActivationBackward {
  Rows<const T> grad;  // [...]
  Rows<const T> x;     // [...]
  int function;
  tile::compute_t<T> a, b, c;
  Rows<T> x_grad;  // [...], may alias grad or x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(grad, x, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(x_grad);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const ActivationParameters given{a, b, c};
    ActivationSlopes::choose_within<P>(function, [&](auto f) {
      elementwise<tile::compute_t<T>>(
          p, x_grad, [f, given](auto g, auto v) { return f(g, v, given); }, grad, x);
    });
  }
};

}  // namespace tw::kernels
