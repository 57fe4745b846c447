// The words of tile/philox.h, 64 at a time in vectors.
#pragma once

#include <immintrin.h>

#include "tilewright/tile/cpu/program.h"
#include "tilewright/tile/philox.h"

namespace tw::tile {

/// The products of the low halves of 64-bit lanes.
TW_INLINE vec<uint64_t, 4> multiply_low(vec<uint64_t, 4> a, vec<uint64_t, 4> b) {
  return (vec<uint64_t, 4>)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#if defined(__AVX512F__)
TW_INLINE vec<uint64_t, 8> multiply_low(vec<uint64_t, 8> a, vec<uint64_t, 8> b) {
  return (vec<uint64_t, 8>)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
#endif

/// Words 64 group .. 64 group + 63 of `key`: philox_word of each.
template <class P>
TW_INLINE void philox_words(P, uint64_t key, uint64_t group, uint32_t* words) {
  using V = typename P::template Vec<uint64_t>;
  constexpr int kN = kLanesOf<V>, kCounters = 16;
  constexpr int kChains = 2;  // side by side: a round is one chain of dependent instructions
  const V first = splat<V>(0xD2511F53u), second = splat<V>(0xCD9E8D57u);
  for (int pass = 0; pass < kCounters; pass += kChains * kN) {
    // Each word in the low half of a lane; the high halves are ignored.
    V c0[kChains], c1[kChains], c2[kChains], c3[kChains];
    TW_UNROLL
    for (int i = 0; i < kChains; ++i) {
      c0[i] = iota<V>(group * kCounters + uint64_t(pass + i * kN));
      c1[i] = c0[i] >> 32;
      c2[i] = c3[i] = V{};
    }
    uint32_t key_low = uint32_t(key), key_high = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
      TW_UNROLL
      for (int i = 0; i < kChains; ++i) {
        const V a = multiply_low(c0[i], first), b = multiply_low(c2[i], second);
        c0[i] = (b >> 32) ^ c1[i] ^ uint64_t { key_low };
        c1[i] = b;
        c2[i] = (a >> 32) ^ c3[i] ^ uint64_t { key_high };
        c3[i] = a;
      }
      key_low += 0x9E3779B9u;
      key_high += 0xBB67AE85u;
    }
    TW_UNROLL
    for (int i = 0; i < kChains; ++i) {
      const auto put = [&](int word, V values) {
        const auto low = convert<vec<uint32_t, kN>>(values & 0xffffffffu);
        __builtin_memcpy(words + word * kCounters + pass + i * kN, &low, sizeof(low));
      };
      put(0, c0[i]);
      put(1, c1[i]);
      put(2, c2[i]);
      put(3, c3[i]);
    }
  }
}

}  // namespace tw::tile
