// wgmma whose left operand is in registers: WgmmaFragment<T, N, transB>::mma, m64 x N x 16 of
// 16-bit elements; a transposed b has n along its rows in shared memory, as it mostly has here.
// Of e4m3 m64 x N x 32, whose b always has k along its rows.
//
// Thread t of warp w gives rows 16 w + t / 4 (+ 8) and columns 2 (t % 4) (+ 1, + 8, + 9): a[0] and
// a[1] are the two rows of the first eight columns, a[2] and a[3] those of the others. Sums of an
// earlier wgmma, rounded and paired, are such a fragment as they stand. Of e4m3 columns come in
// fours, 4 (t % 4) to + 3, of the first sixteen and of the others.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

template <class T, int kN, bool kTransposedB = true>
struct WgmmaFragment;

// clang-format off
#define TW_TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, " \
                  "%" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define TW_SUMS4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TW_SUMS16(i) TW_SUMS4(i), TW_SUMS4(i + 4), TW_SUMS4(i + 8), TW_SUMS4(i + 12)
// k0 ... k6: the numbers of the operands after the sums.
#define TW_WGMMA(T, N, k0, k1, k2, k3, k4, k5, k6, REGISTERS, ...)                                 \
  template <bool kTransposedB>                                                                     \
  struct WgmmaFragment<T, N, kTransposedB> {                                                       \
    TW_PTX static void mma(float (&d)[N / 2], const uint32_t* a, uint64_t b, int keep) {           \
      asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %" #k5 ", 0;\n"                           \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #T "." #T " {" REGISTERS "}," \
                   " {%" #k0 ", %" #k1 ", %" #k2 ", %" #k3 "}, %" #k4 ", keep, 1, 1, %" #k6 "; }" \
                   : __VA_ARGS__                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep),                \
                     "n"(int(kTransposedB)));                                                      \
    }                                                                                              \
  }
#define TW_WGMMA_E4M3(N, k0, k1, k2, k3, k4, k5, k6, REGISTERS, ...)                               \
  template <>                                                                                      \
  struct WgmmaFragment<f8_e4m3fn, N> {                                                             \
    TW_PTX static void mma(float (&d)[N / 2], const uint32_t* a, uint64_t b, int keep) {           \
      asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %" #k5 ", 0;\n"                           \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" REGISTERS "},"     \
                   " {%" #k0 ", %" #k1 ", %" #k2 ", %" #k3 "}, %" #k4 ", keep, 1, 1; }"            \
                   : __VA_ARGS__                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));               \
    }                                                                                              \
  }
#define TW_WGMMA_SHAPE(...)      \
  TW_WGMMA(bf16, __VA_ARGS__);   \
  TW_WGMMA(f16, __VA_ARGS__);    \
  TW_WGMMA_E4M3(__VA_ARGS__)

TW_WGMMA_SHAPE(8, 4, 5, 6, 7, 8, 9, 10, "%0, %1, %2, %3", TW_SUMS4(0));
TW_WGMMA_SHAPE(16, 8, 9, 10, 11, 12, 13, 14, "%0, %1, %2, %3, %4, %5, %6, %7", TW_SUMS4(0),
               TW_SUMS4(4));
TW_WGMMA_SHAPE(32, 16, 17, 18, 19, 20, 21, 22, TW_TEN() "%10, %11, %12, %13, %14, %15",
               TW_SUMS16(0));
TW_WGMMA_SHAPE(64, 32, 33, 34, 35, 36, 37, 38, TW_TEN() TW_TEN(1) TW_TEN(2) "%30, %31",
               TW_SUMS16(0), TW_SUMS16(16));
TW_WGMMA_SHAPE(96, 48, 49, 50, 51, 52, 53, 54,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) "%40, %41, %42, %43, %44, %45, %46, %47",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32));
TW_WGMMA_SHAPE(128, 64, 65, 66, 67, 68, 69, 70,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) "%60, %61, %62, %63",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48));
TW_WGMMA_SHAPE(192, 96, 97, 98, 99, 100, 101, 102,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) TW_TEN(7)
               TW_TEN(8) "%90, %91, %92, %93, %94, %95",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS16(64),
               TW_SUMS16(80));
TW_WGMMA_SHAPE(256, 128, 129, 130, 131, 132, 133, 134,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) TW_TEN(7)
               TW_TEN(8) TW_TEN(9) TW_TEN(10) TW_TEN(11)
               "%120, %121, %122, %123, %124, %125, %126, %127",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS16(64),
               TW_SUMS16(80), TW_SUMS16(96), TW_SUMS16(112));
// clang-format on

#undef TW_TEN
#undef TW_SUMS4
#undef TW_SUMS16
#undef TW_WGMMA
#undef TW_WGMMA_E4M3
#undef TW_WGMMA_SHAPE

}  // namespace tw::tile::cuda
