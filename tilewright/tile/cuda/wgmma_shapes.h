// The instruction shapes of wgmma, m64 x N x 32 bytes of k: Wgmma<T, N, transA, transB>::mma.
// The list of registers is part of an instruction's text, hence the macros.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// float as an operand is tf32: the low 13 bits of the mantissa are ignored. Only 16-bit operands
/// can be transposed, that is, have m or n along the rows of shared memory.
template <class T, int kN, bool kTransposedA = false, bool kTransposedB = false>
struct Wgmma;

// clang-format off
#define TW_TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, " \
                  "%" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define TW_SUMS4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TW_SUMS16(i) TW_SUMS4(i), TW_SUMS4(i + 4), TW_SUMS4(i + 8), TW_SUMS4(i + 12)
// kA, kB, kKeep, kTa, kTb: the numbers of the operands after the sums.
#define TW_WGMMA(T, N, SHAPE, kA, kB, kKeep, TRANS, FLAGS, REGISTERS, ...)                         \
  asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %" #kKeep ", 0;\n"                            \
               "wgmma.mma_async.sync.aligned.m64n" #N SHAPE " {" REGISTERS "}, %" #kA ", %" #kB    \
               ", keep, 1, 1" TRANS "; }"                                                          \
               : __VA_ARGS__ : "l"(a), "l"(b), "r"(keep) FLAGS)
#define TW_COMMA ,
#define TW_WGMMA_SHAPE(N, kA, kB, kKeep, kTa, kTb, REGISTERS, ...)                                 \
  template <bool kTransposedA, bool kTransposedB>                                                  \
  struct Wgmma<bf16, N, kTransposedA, kTransposedB> {                                              \
    TW_PTX static void mma(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {                  \
      TW_WGMMA(bf16, N, "k16.f32.bf16.bf16", kA, kB, kKeep, ", %" #kTa ", %" #kTb,                 \
               TW_COMMA "n"(int(kTransposedA)) TW_COMMA "n"(int(kTransposedB)), REGISTERS,         \
               __VA_ARGS__);                                                                       \
    }                                                                                              \
  };                                                                                               \
  template <bool kTransposedA, bool kTransposedB>                                                  \
  struct Wgmma<f16, N, kTransposedA, kTransposedB> {                                               \
    TW_PTX static void mma(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {                  \
      TW_WGMMA(f16, N, "k16.f32.f16.f16", kA, kB, kKeep, ", %" #kTa ", %" #kTb,                    \
               TW_COMMA "n"(int(kTransposedA)) TW_COMMA "n"(int(kTransposedB)), REGISTERS,         \
               __VA_ARGS__);                                                                       \
    }                                                                                              \
  };                                                                                               \
  template <>                                                                                      \
  struct Wgmma<float, N> {                                                                         \
    TW_PTX static void mma(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {                  \
      TW_WGMMA(float, N, "k8.f32.tf32.tf32", kA, kB, kKeep, , , REGISTERS, __VA_ARGS__);           \
    }                                                                                              \
  };                                                                                               \
  template <>                                                                                      \
  struct Wgmma<f8_e4m3fn, N> {                                                                     \
    TW_PTX static void mma(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {                  \
      TW_WGMMA(f8_e4m3fn, N, "k32.f32.e4m3.e4m3", kA, kB, kKeep, , , REGISTERS, __VA_ARGS__);      \
    }                                                                                              \
  }

TW_WGMMA_SHAPE(8, 4, 5, 6, 7, 8, "%0, %1, %2, %3", TW_SUMS4(0));
TW_WGMMA_SHAPE(16, 8, 9, 10, 11, 12, "%0, %1, %2, %3, %4, %5, %6, %7", TW_SUMS4(0), TW_SUMS4(4));
TW_WGMMA_SHAPE(32, 16, 17, 18, 19, 20, TW_TEN() "%10, %11, %12, %13, %14, %15", TW_SUMS16(0));
TW_WGMMA_SHAPE(48, 24, 25, 26, 27, 28, TW_TEN() TW_TEN(1) "%20, %21, %22, %23",
               TW_SUMS16(0), TW_SUMS4(16), TW_SUMS4(20));
TW_WGMMA_SHAPE(64, 32, 33, 34, 35, 36, TW_TEN() TW_TEN(1) TW_TEN(2) "%30, %31",
               TW_SUMS16(0), TW_SUMS16(16));
TW_WGMMA_SHAPE(80, 40, 41, 42, 43, 44, TW_TEN() TW_TEN(1) TW_TEN(2) "%30, %31, %32, %33, %34, "
               "%35, %36, %37, %38, %39", TW_SUMS16(0), TW_SUMS16(16), TW_SUMS4(32), TW_SUMS4(36));
TW_WGMMA_SHAPE(96, 48, 49, 50, 51, 52,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) "%40, %41, %42, %43, %44, %45, %46, %47",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32));
TW_WGMMA_SHAPE(112, 56, 57, 58, 59, 60,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) "%50, %51, %52, %53, %54, %55",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS4(48), TW_SUMS4(52));
TW_WGMMA_SHAPE(128, 64, 65, 66, 67, 68,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) "%60, %61, %62, %63",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48));
TW_WGMMA_SHAPE(144, 72, 73, 74, 75, 76,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) "%70, %71",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS4(64),
               TW_SUMS4(68));
TW_WGMMA_SHAPE(160, 80, 81, 82, 83, 84,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) "%70, %71, "
               "%72, %73, %74, %75, %76, %77, %78, %79",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS16(64));
TW_WGMMA_SHAPE(176, 88, 89, 90, 91, 92,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) TW_TEN(7)
               "%80, %81, %82, %83, %84, %85, %86, %87",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS16(64),
               TW_SUMS4(80), TW_SUMS4(84));
TW_WGMMA_SHAPE(192, 96, 97, 98, 99, 100,
               TW_TEN() TW_TEN(1) TW_TEN(2) TW_TEN(3) TW_TEN(4) TW_TEN(5) TW_TEN(6) TW_TEN(7)
               TW_TEN(8) "%90, %91, %92, %93, %94, %95",
               TW_SUMS16(0), TW_SUMS16(16), TW_SUMS16(32), TW_SUMS16(48), TW_SUMS16(64),
               TW_SUMS16(80));
TW_WGMMA_SHAPE(256, 128, 129, 130, 131, 132,
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
#undef TW_COMMA
#undef TW_WGMMA_SHAPE

}  // namespace tw::tile::cuda
