// Both gradients of out = f(x, other), elementwise and broadcast, for one of the functions of two
// numbers: the second one, if wanted, while grad, x and other are still in cache. Where f is not
// differentiable, as PyTorch has it.
#pragma once

#include "tilewright/kernels/binary_functions.h"

namespace tw::kernels {

struct GradOfQuotient {
  template <class V>
  TW_INLINE static V x(V grad, V, V other) {
    return grad / other;
  }
  template <class V>
  TW_INLINE static V other(V grad, V x, V other) {
    return -grad * ((x / other) / other);
  }
};
/// Of what goes in steps.
struct GradOfSteps {
  template <class V>
  TW_INLINE static V x(V, V, V) {
    return V{};
  }
  template <class V>
  TW_INLINE static V other(V, V, V) {
    return V{};
  }
};
struct GradOfRemainder {
  template <class V>
  TW_INLINE static V x(V grad, V, V) {
    return grad;
  }
  template <class V>
  TW_INLINE static V other(V grad, V x, V other) {
    return -grad * FloorQuotient{}(x, other);
  }
};
struct GradOfPower {
  template <class V>
  TW_INLINE static V x(V grad, V x, V other) {
    return tile::select(other == V{}, V{}, grad * (other * Power{}(x, V(other - 1.0f))));
  }
  template <class V>
  TW_INLINE static V other(V grad, V x, V other) {
    // 0^y has no slope for y >= 0, though its logarithm is infinite.
    const auto is_flat = (x == V{}) & (other >= V{});
    return grad * tile::select(is_flat, V{}, Power{}(x, other) * tile::log(x));
  }
};
struct GradOfSlopedBelow {
  template <class V>
  TW_INLINE static V x(V grad, V x, V other) {
    return tile::select(x > V{}, grad, grad * other);
  }
  template <class V>
  TW_INLINE static V other(V grad, V x, V) {
    return tile::select(x > V{}, V{}, grad * x);
  }
};
/// Of the larger, or of the smaller: half each where both are the same.
struct GradOfLarger {
  template <class V>
  TW_INLINE static V x(V grad, V x, V other) {
    return tile::select(x < other, V{}, tile::select(x == other, grad * 0.5f, grad));
  }
  template <class V>
  TW_INLINE static V other(V grad, V x, V other) {
    return GradOfLarger::x(grad, other, x);
  }
};
struct GradOfSmaller {
  template <class V>
  TW_INLINE static V x(V grad, V x, V other) {
    return GradOfLarger::x(grad, other, x);
  }
  template <class V>
  TW_INLINE static V other(V grad, V x, V other) {
    return GradOfLarger::x(grad, x, other);
  }
};

template <class G>
struct ForX {
  template <class V>
  TW_INLINE V operator()(V grad, V x, V other) const {
    return G::x(grad, x, other);
  }
};
template <class G>
struct ForOther {
  template <class V>
  TW_INLINE V operator()(V grad, V x, V other) const {
    return G::other(grad, x, other);
  }
};
template <class... Gs>
struct GradsOfBoth {
  using X = OneOf<ForX<Gs>...>;
  using Other = OneOf<ForOther<Gs>...>;
};
/// In the order of the schema of ops/binary_backward.h: that of ops/binary.h, then ops/extremum.h.
using BinaryGrads = GradsOfBoth<GradOfQuotient, GradOfSteps, GradOfSteps, GradOfRemainder,
                                GradOfPower, GradOfSlopedBelow, GradOfLarger, GradOfSmaller>;
static_assert(BinaryGrads::X::kCount == BinaryFunctions::kCount + ExtremumFunctions::kCount);

template <class T>
struct BinaryBackward {
  Rows<const T> grad;   // [...]
  Rows<const T> x;      // [...]
  Rows<const T> other;  // [...]
  int function;
  Rows<T> x_grad;      // [...]
  Rows<T> other_grad;  // [...], or no data

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return other_grad ? f(grad, x, other, x_grad, other_grad) : f(grad, x, other, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(x_grad);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using C = tile::compute_t<T>;
    BinaryGrads::X::choose_within<P>(function,
                                     [&](auto f) { elementwise<C>(p, x_grad, f, grad, x, other); });
    if (other_grad)
      BinaryGrads::Other::choose_within<P>(
          function, [&](auto f) { elementwise<C>(p, other_grad, f, grad, x, other); });
  }
};

}  // namespace tw::kernels
