// wgmma of signed 8-bit operands, int32 sums: Wgmma<int8_t, N>::mma, of the shapes that are used.
#pragma once

#include "tilewright/tile/cuda/wgmma_shapes.h"

namespace tw::tile::cuda {

/// What the tensor cores add up products of T in.
template <class T>
struct WgmmaSum {
  using type = float;
};
template <>
struct WgmmaSum<int8_t> {
  using type = int32_t;
};

// clang-format off
#define TW_TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, " \
                  "%" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define TW_SUMS4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define TW_SUMS16(i) TW_SUMS4(i), TW_SUMS4(i + 4), TW_SUMS4(i + 8), TW_SUMS4(i + 12)
// kA, kB, kKeep: the numbers of the operands after the sums.
#define TW_WGMMA_SHAPE(N, kA, kB, kKeep, REGISTERS, ...)                                           \
  template <>                                                                                      \
  struct Wgmma<int8_t, N> {                                                                        \
    TW_PTX static void mma(int32_t (&d)[N / 2], uint64_t a, uint64_t b, int keep) {                \
      asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %" #kKeep ", 0;\n"                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8 {" REGISTERS "}, %" #kA   \
                   ", %" #kB ", keep; }"                                                           \
                   : __VA_ARGS__ : "l"(a), "l"(b), "r"(keep));                                     \
    }                                                                                              \
  }

TW_WGMMA_SHAPE(64, 32, 33, 34,
               TW_TEN() TW_TEN(1) TW_TEN(2) "%30, %31",
               TW_SUMS16(0), TW_SUMS16(16));
TW_WGMMA_SHAPE(128, 64, 65, 66,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) "%60, %61, %62, %63",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48));
TW_WGMMA_SHAPE(192, 96, 97, 98,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) TW_TEN(7)
               TW_TEN(8) "%90, %91, %92, %93, %94, %95",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS16(64),
               TW_SUMS16(80));
TW_WGMMA_SHAPE(256, 128, 129, 130,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) TW_TEN(7)
               TW_TEN(8) TW_TEN(9) TW_TEN(10) TW_TEN(11)
               "%120, %121, %122, %123, %124, %125, %126, %127",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS16(64),
               TW_SUMS16(80), TW_SUMS16(96), TW_SUMS16(112));
// clang-format on

#undef TW_TEN
#undef TW_SUMS4
#undef TW_SUMS16
#undef TW_WGMMA_SHAPE

}  // namespace tw::tile::cuda
