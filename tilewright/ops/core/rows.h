// Views as Rows, for operators that run as sequences of others.
#pragma once

#include "tilewright/core/view.h"

namespace tw::ops {

template <class T>
Rows<T> as_rows(const View<T, 2>& x) {
  Rows<T> out = tw::rows(x.data, x.size(0), x.size(1));
  out.lead_strides[0] = x.stride(0);
  out.col_stride = x.stride(1);
  return out;
}

}  // namespace tw::ops
