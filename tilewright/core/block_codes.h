// What the codes of block formats (block_formats.h) stand for where that is a table, and e8m0.
// Freestanding: also read by NVRTC.
#pragma once

#include "tilewright/core/types.h"

namespace tw {

/// What the sixteen codes of iq4_nl and iq4_xs stand for.
inline constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

/// Twice the value of each E2M1 code: sign, two exponent bits, one mantissa bit.
inline constexpr int8_t kMxfp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

/// Half of 2^(e - 127), to go with the doubled kMxfp4Values; e < 2 gives a subnormal.
TW_INLINE constexpr float e8m0_half(uint8_t e) {
  return e < 2 ? detail::bits_float(0x00200000u << e) : detail::bits_float(uint32_t(e - 1) << 23);
}

}  // namespace tw
