// Reorders dimensions.
#pragma once

#include "tilewright/kernels/relayout_gpu.h"

namespace tw::kernels {

template <class T>
struct Permute {
  Rows<const T> x;              // [...]
  View<const int64_t, 1> dims;  // [rank of x]; the caller reordered x by them
  Rows<T> out;                  // [...]

  template <tile::Program P>
  TW_DEVICE auto prepared() const
    requires(P::kOnGpu)
  {
    return relayout_on_gpu<P>(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    if constexpr (P::kOnGpu)
      return prepared<P>().plan();
    else
      return relayout(x, out).template plan<P>(machine);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      prepared<P>()(p);
    else
      relayout(x, out).run(p);
  }
};

}  // namespace tw::kernels
