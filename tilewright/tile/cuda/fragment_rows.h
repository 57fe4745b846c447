// Rows of a wgmma's sums to global memory.
#pragma once

#include "tilewright/tile/cuda/convert.h"

namespace tw::tile::cuda {

namespace fragment_rows {

/// Word j of lane q of four becomes word q of lane j.
TW_PTX void transpose_quad(uint32_t (&words)[4]) {
  const int lane = int(threadIdx.x);
  TW_UNROLL
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = (lane & step) != 0;
    TW_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (j & step) continue;
      uint32_t &low = words[j], &high = words[j + step];
      const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? low : high, step);
      (upper ? low : high) = got;
    }
  }
}

/// At most 8. Out of line: rare, and there are many places that would hold a copy.
static __device__ __noinline__ void store_some(uint16_t* to, int columns, uint32_t w0, uint32_t w1,
                                               uint32_t w2, uint32_t w3) {
  for (int c = 0; c < columns && c < 8; ++c) {
    const uint32_t word = c < 2 ? w0 : c < 4 ? w1 : c < 6 ? w2 : w3;
    to[c] = uint16_t(word >> (16 * (c % 2)));
  }
}

}  // namespace fragment_rows

/// Stores the first of kColumns columns of a row that exist, `columns` or all, rounded to T: four
/// lanes have two of every eight and get eight each of every 32. `sums` has a thread's own at 0, 1,
/// 4, 5, 8, 9 and so on. A row that is null is not stored; whole warps call.
///
/// Where columns come in eights, as they mostly do, the code is short: a kernel stores a few times
/// at most, and reads its code from memory the first time.
template <class T, int kColumns>
TW_PTX void store_fragment_row(T* row, int columns, const float* sums) {
  const int own = 8 * (int(threadIdx.x) % 4), rest = row == nullptr ? 0 : columns - own;
  T* const to = row + own;
  const auto words_of = [&](int i, uint32_t(&words)[4]) {
    TW_UNROLL
    for (int j = 0; j < 4; ++j) words[j] = pack<T>(sums[i / 2 + 4 * j], sums[i / 2 + 4 * j + 1]);
    fragment_rows::transpose_quad(words);
  };
  if (columns % 8 == 0) {
    TW_UNROLL
    for (int i = 0; i < kColumns; i += 32) {
      uint32_t words[4];
      words_of(i, words);
      if (i < rest) *reinterpret_cast<uint4*>(to + i) = {words[0], words[1], words[2], words[3]};
    }
  } else {
    TW_UNROLL
    for (int i = 0; i < kColumns; i += 32) {
      uint32_t words[4];
      words_of(i, words);
      if (i < rest)
        fragment_rows::store_some(reinterpret_cast<uint16_t*>(to + i), rest - i, words[0], words[1],
                                  words[2], words[3]);
    }
  }
}

}  // namespace tw::tile::cuda
