// Counter-based random bits: the same on every target, and independent of the order in which they
// are drawn. Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011. Freestanding.
#pragma once

#include "tilewright/core/types.h"

namespace tw::tile {

struct PhiloxBits {
  uint32_t word[4];
};

/// The keys of a key's ten rounds.
struct PhiloxKeys {
  static constexpr int kRounds = 10;
  uint32_t low[kRounds], high[kRounds];

  TW_INLINE static constexpr PhiloxKeys of(uint64_t key) {
    PhiloxKeys out{{uint32_t(key)}, {uint32_t(key >> 32)}};
    for (int round = 1; round < kRounds; ++round) {
      out.low[round] = out.low[round - 1] + 0x9E3779B9u;
      out.high[round] = out.high[round - 1] + 0xBB67AE85u;
    }
    return out;
  }
};

/// 128 bits for (key, counter).
TW_INLINE constexpr PhiloxBits philox(const PhiloxKeys& keys, uint64_t counter_low,
                                      uint64_t counter_high) {
  PhiloxBits c{{uint32_t(counter_low), uint32_t(counter_low >> 32), uint32_t(counter_high),
                uint32_t(counter_high >> 32)}};
  TW_UNROLL
  for (int round = 0; round < PhiloxKeys::kRounds; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c.word[0], b = uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{uint32_t(b >> 32) ^ c.word[1] ^ keys.low[round], uint32_t(b),
          uint32_t(a >> 32) ^ c.word[3] ^ keys.high[round], uint32_t(a)}};
  }
  return c;
}
TW_INLINE constexpr PhiloxBits philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  return philox(PhiloxKeys::of(key), counter_low, counter_high);
}

/// Random 32-bit words numbered 0, 1, 2, ...: word e is one of the four of counter
/// 16 (e / 64) + e % 16, so that sixteen counters give 64 words in order, side by side.
TW_INLINE constexpr uint32_t philox_word(const PhiloxKeys& keys, uint64_t e) {
  const PhiloxBits bits = philox(keys, e / 64 * 16 + e % 16, 0);
  const uint32_t low = e & 16 ? bits.word[1] : bits.word[0];  // no index: registers have none
  const uint32_t high = e & 16 ? bits.word[3] : bits.word[2];
  return e & 32 ? high : low;
}
TW_INLINE constexpr uint32_t philox_word(uint64_t key, uint64_t e) {
  return philox_word(PhiloxKeys::of(key), e);
}
/// Uniform in [0, 1), a multiple of 2^-53, from the first 64 bits.
TW_INLINE constexpr double uniform(const PhiloxBits& bits) {
  const uint64_t wide = uint64_t{bits.word[0]} << 32 | bits.word[1];
  return double(wide >> 11) * 0x1p-53;
}

}  // namespace tw::tile
