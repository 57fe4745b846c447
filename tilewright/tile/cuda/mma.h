// mma: the matrix instruction of one warp, m16 x n8 x 16 of 16-bit elements, float32 sums.
//
// Lane l gives a's rows l / 4 (+ 8) and columns 2 (l % 4) (+ 1, + 8, + 9): a[0] and a[1] are the
// two rows of the first eight columns, a[2] and a[3] those of the others; b[0] and b[1] are the
// same columns of b's row l / 4. Its sums are of rows l / 4 (+ 8) and columns 2 (l % 4) (+ 1).
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

#define TW_MMA(T)                                                                  \
  TW_PTX void mma(float(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2], T) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." #T "." #T                         \
        ".f32 {%0, %1, %2, %3},"                                                   \
        " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                           \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));       \
  }
/// d += a b; the last argument only names the type.
TW_MMA(bf16)
TW_MMA(f16)
#undef TW_MMA

// Of signed bytes, with sums of int32. m16 x n8 x 32: a lane's words of four neighbouring columns
// are a[0] and a[1], rows l / 4 (+ 8) of columns 4 (l % 4), and a[2] and a[3], 16 columns on; b[0]
// and b[1] are the same columns of b's row l / 4. m16 x n8 x 16 has the first half of each.
TW_PTX void mma_bytes(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3},"
      " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TW_PTX void mma_bytes(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3},"
      " {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

}  // namespace tw::tile::cuda
