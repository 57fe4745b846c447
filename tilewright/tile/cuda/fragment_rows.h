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

/// Out of line: rare, and there are many places that would hold a copy.
static __device__ __noinline__ void store_some(uint16_t* to, int columns, uint32_t w0, uint32_t w1,
                                               uint32_t w2, uint32_t w3) {
  for (int c = 0; c < columns; ++c) {
    const uint32_t word = c < 2 ? w0 : c < 4 ? w1 : c < 6 ? w2 : w3;
    to[c] = uint16_t(word >> (16 * (c % 2)));
  }
}

}  // namespace fragment_rows

/// Stores 32 columns of a row from `first` on, as far as there are `columns`, rounded to T: four
/// lanes have two of every eight and get eight each. `sums` has a thread's own at 0, 1, 4, 5, 8, 9,
/// 12 and 13. A row that is null is not stored; whole warps call.
template <class T>
TW_PTX void store_fragment_row(T* row, int first, int columns, const float* sums) {
  uint32_t words[4];
  TW_UNROLL
  for (int j = 0; j < 4; ++j) words[j] = pack<T>(sums[4 * j], sums[4 * j + 1]);
  fragment_rows::transpose_quad(words);
  const int column = first + 8 * (int(threadIdx.x) % 4), rest = columns - column;
  if (row == nullptr || rest <= 0) return;
  T* const to = row + column;
  if (rest >= 8)
    *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
  else
    fragment_rows::store_some(reinterpret_cast<uint16_t*>(to), rest, words[0], words[1], words[2],
                              words[3]);
}

}  // namespace tw::tile::cuda
