// What attention results in. Freestanding.
#pragma once

#include "tilewright/core/types.h"

namespace tw::kernels {

/// Of queries of 8 bits, what 8 bits would be too few for; else the queries' own type.
template <class T>
struct attention_output {
  using type = T;
};
template <>
struct attention_output<f8_e4m3fn> {
  using type = bf16;
};
template <class T>
using attention_output_t = typename attention_output<T>::type;

}  // namespace tw::kernels
