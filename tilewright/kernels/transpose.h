// Exchanges two dimensions.
#pragma once

#include "tilewright/kernels/relayout.h"

namespace tw::kernels {

template <class T>
struct Transpose {
  Rows<const T> x;     // [...]
  int64_t dim0, dim1;  // the caller exchanged these dimensions of x
  Rows<T> out;         // [...]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    return relayout(x, out).template plan<P>(machine);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    relayout(x, out).run(p);
  }
};

}  // namespace tw::kernels
