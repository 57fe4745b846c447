// The activations of gated products, by number.
#pragma once

#include "tilewright/kernels/activation.h"

namespace tw::kernels {

/// What is done to the gate.
enum class GatedActivation : int { kSilu, kGelu, kGeluTanh };

/// Calls f with the functor of `activation`.
template <class F>
TW_INLINE void with_activation(GatedActivation activation, F&& f) {
  switch (activation) {
    case GatedActivation::kSilu:
      return f(Silu{});
    case GatedActivation::kGelu:
      return f(Gelu{});
    case GatedActivation::kGeluTanh:
      return f(GeluTanh{});
  }
}

}  // namespace tw::kernels
