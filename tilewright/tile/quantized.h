// Spans of rows as numbers of 8 bits.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::tile {

/// The largest finite number of a type, and the least.
template <class Q>
struct QuantizedAs {
  static constexpr float kLargest = 448, kLeast = -448;  // f8_e4m3fn
};
template <>
struct QuantizedAs<int8_t> {
  static constexpr float kLargest = 127, kLeast = -128;
};

}  // namespace tw::tile

#if defined(__CUDACC__)
#include "tilewright/tile/cuda/quantized.h"
#else
#include "tilewright/tile/cpu/quantized.h"
#endif
