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
    return relayout<P>(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return relayout<P>(x, out).plan(machine);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    relayout<P>(x, out)(p);
  }
};

}  // namespace tw::kernels
