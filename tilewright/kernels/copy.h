// Elements as they are, from any strides to any strides.
#pragma once

#include "tilewright/kernels/relayout.h"

namespace tw::kernels {

template <class T>
struct Copy {
  Rows<const T> x;  // [...]
  Rows<T> out;      // [...]

  template <tile::Program P>
  TW_DEVICE auto prepared() const {
    return relayout<P>(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return prepared<P>().plan();
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    prepared<P>()(p);
  }
};

}  // namespace tw::kernels
