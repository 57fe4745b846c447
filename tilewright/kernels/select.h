// Selection in linear time: which of n values are among the largest, by count or by weight.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Finds the smallest value that is kept when a value is kept as long as all strictly larger ones
/// together weigh less than a target. With weight 1 and target k, these are the k largest (and
/// those equal to the k-th); with probabilities and target p, the nucleus of mass p. The largest
/// value is kept whatever the target.
///
/// Three rounds over the digits (11, 11 and 10 bits) of an integer that orders as the float does:
/// a histogram of weights finds the digit in which the target is reached.
struct RankSelect {
  static constexpr int kBins = 2048;

  TW_INLINE static uint32_t ordered_bits(float x) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
  }
  TW_INLINE static float value_of(uint32_t ordered) {
    return __builtin_bit_cast(float, ordered ^ (ordered >> 31 ? 0x80000000u : 0xffffffffu));
  }

  /// `weight(i)` of values[i] is 0 for what does not take part. The target is `count` plus `share`
  /// of the total weight. Returns -inf when all are kept. No value may be NaN or -0.
  template <class P, class W>
  TW_INLINE static float threshold(P, const float* values, int64_t n, double count, double share,
                                   double* histogram, W weight) {
    double above = 0, target = count;
    uint32_t prefix = 0;
    int shift = 32;
    for (int round = 0; round < 3; ++round) {
      const int bits = round < 2 ? 11 : 10, bins = 1 << bits;
      const int known = shift;  // bits below the known digits
      shift -= bits;
      for (int b = 0; b < bins; ++b) histogram[b] = 0;
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t key = ordered_bits(values[i]);
        if (round > 0 && key >> known != prefix) continue;
        histogram[key >> shift & uint32_t(bins - 1)] += double(weight(i));
      }
      if (round == 0 && share > 0)
        for (int b = 0; b < bins; ++b) target += share * histogram[b];
      int digit = bins - 1;
      while (digit >= 0 && (histogram[digit] == 0 || above + histogram[digit] < target))
        above += histogram[digit--];
      if (digit < 0) return -__builtin_inff();
      prefix = prefix << bits | uint32_t(digit);
    }
    return value_of(prefix);
  }
};

}  // namespace tw::kernels
