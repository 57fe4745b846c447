#pragma once

#include "tilewright/kernels/copy.h"
#include "tilewright/ops/core/relayout.h"

namespace tw::ops {

/// The elements of x, from any strides to any strides: `contiguous` where out is.
struct Copy : RelayoutOperator {
  static constexpr Schema kSchema{"copy(x: T[...]) -> out: T[...]"};
  static constexpr Gradient kGradient{"out.grad -> x.grad"};

  template <class T>
  using Kernel = kernels::Copy<bits_of<T>>;

  static constexpr auto& kEdgeCases = kUnaryCases;
  static constexpr auto& kWorkloads = kUnaryWorkloads;
};

}  // namespace tw::ops
